#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "support/bytes.h"
#include "support/file_state.h"
#include "support/open_file.h"

namespace dimred {

/// A file that appears under its final name only when it is complete: written to `<name>.tmp` in
/// the same folder, then fsync, rename, fsync of the folder. Destroyed without commit(), it leaves
/// nothing behind; what a killed process left is overwritten by the next writer of the same name.
/// The temporary file is locked (flock), so two writers of one name at once are refused, not mixed.
/// Anything but a regular file under the final name (a folder, a device, a pipe, a link) is
/// refused, not replaced. Several processes may write one file: one creates it, the others Join it.
/// Every failed call throws std::runtime_error with call, path and errno.
class AtomicFile {
 public:
  /// Asks for a part in a file that another process creates, keeps and commits.
  struct Join {};

  explicit AtomicFile(std::filesystem::path final_path);
  /// Opens the temporary file that its creator has now: without lock or truncation, and destroyed
  /// without a trace. Processes of one host may write anywhere in it; a page belongs to the
  /// processes of one host, as a cache that writes back (NFS, FUSE) writes whole pages.
  AtomicFile(std::filesystem::path final_path, Join);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes behind what append() wrote before (write_at does not move that position).
  void append(ByteView bytes);
  /// Positioned write, safe from several threads at once; retries short writes and EINTR.
  void write_at(std::int64_t offset, ByteView bytes);
  /// Reserves the length first, so that a full disk is noticed before work is done.
  void reserve(std::int64_t bytes);
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& temporary_path() const { return temporary_path_; }

  /// Makes durable what this process has written; a process that joined does so before the
  /// creator's commit(). Returns seconds spent in fsync.
  double sync();
  /// The creator makes the file durable under its final name. Returns seconds spent in fsync.
  double commit();

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  Descriptor descriptor_;
  bool joined_ = false;
  std::int64_t position_ = 0;  // of append()
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Throws std::invalid_argument where the name is that of a folder, or of a device, a pipe, a
/// socket or a link, which a file renamed to it would take the place of.
void require_regular_or_absent(const std::filesystem::path& path);

/// Deletes `<prefix>*.tmp` files that no living writer has locked.
void remove_stale_temporaries(const std::filesystem::path& folder, std::string_view prefix);

/// pwrite of all bytes; retries short writes and EINTR. Throws std::runtime_error with the path.
/// Safe from several threads.
void write_exactly(int descriptor,
                   std::int64_t offset,
                   ByteView bytes,
                   const std::filesystem::path& path);

/// pread of exactly out.size() bytes; retries short reads and EINTR. Throws std::runtime_error with
/// the path when the file ends early. Safe from several threads.
void read_exactly(int descriptor,
                  std::int64_t offset,
                  std::span<std::byte> out,
                  const std::filesystem::path& path);

/// Read-only descriptor that closes itself. Throws std::invalid_argument when the file is missing
/// or not a regular file, std::runtime_error when it cannot be opened.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  void read(std::int64_t offset, std::span<std::byte> out) const;
  /// Bytes [begin, end) go to `sink` in parts of 1 MiB at most.
  void read(std::int64_t begin, std::int64_t end, const ByteSink& sink) const;
  /// Reads as above from `offset` to the end of the file.
  void read(std::int64_t offset, const ByteSink& sink) const { read(offset, size(), sink); }
  /// All of it. Throws std::runtime_error when it is larger than `most` bytes.
  std::string text(std::int64_t most) const;
  /// Bytes [offset, offset + size), which the file has to have.
  std::string part(std::int64_t offset, std::int64_t size) const;
  bool begins_with(std::string_view text) const;
  /// The remark of support/text.h on how the file begins.
  std::string placeholder_remark() const;
  std::int64_t size() const { return state_.bytes; }
  /// From before the first read.
  const FileState& state() const { return state_; }
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  FileState state_;
};

}  // namespace dimred
