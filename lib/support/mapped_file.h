#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "support/bytes.h"

namespace dimred {

/// The identity of a file, which another in its place would not have: size, time of the last
/// change, and XXH3-128 of up to four parts of 4 KB, first and last among them.
struct FileIdentity {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds
  std::string sample;         // 32 hexadecimal digits
  bool operator==(const FileIdentity&) const = default;
};

/// A whole file as read-only memory. Its pages belong to the page cache and are shared by all
/// processes that read it. A file replaced by rename stays as it was; of one that is cut short in
/// place while it is mapped, the part that is gone ends the process (SIGBUS) when it is touched, as
/// in every program that maps files, unless fetch() has asked for it first. Throws
/// std::invalid_argument when there is no such regular file, std::runtime_error when it cannot be
/// opened or mapped.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  FileIdentity identity() const;
  /// Says that the file will now be read once, from its beginning to its end, or no longer.
  void read_sequentially(bool sequential) const;
  /// Fetches the pages of a part of bytes() at once: one request of the disk and of the kernel in
  /// place of one for every few pages that are touched. Throws std::runtime_error naming file and
  /// offset when they cannot be had: the file was cut short since it was mapped, or the disk fails.
  /// Kernels before 5.14 do without, and end the process then.
  void fetch(Bytes part) const;

 private:
  std::filesystem::path path_;
  Bytes bytes_;
  std::int64_t modified_ = 0;
};

}  // namespace dimred
