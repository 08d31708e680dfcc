#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace dimred::data {

/// Reads plain and gz files alike, from the beginning. Throws std::runtime_error("[scope] file,
/// offset N: ..."), N in the file as it lies, for a file that cannot be opened, is damaged or ends
/// early.
class GzFile {
 public:
  GzFile(std::filesystem::path path, const char* scope);
  const std::filesystem::path& path() const { return path_; }
  /// Whether the content is gz, known after the first read.
  bool packed() const { return gzdirect(file_.get()) == 0; }
  /// Up to out.size() bytes; fewer only at the end of a sound file.
  std::size_t read(std::span<std::uint8_t> out);

 private:
  std::filesystem::path path_;
  const char* scope_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace dimred::data
