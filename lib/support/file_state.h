#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct stat;

namespace dimred {

/// Numbers that tell a file from others, whatever their names, and that change when it is written:
/// links of both kinds have their file's. (A file system that has no numbers of its own still tells
/// sizes and times.)
struct FileState {
  std::int64_t device = 0, number = 0, bytes = 0, seconds = 0, nanoseconds = 0;
  auto operator<=>(const FileState&) const = default;
  /// Whether its size or time is another: it has been written since. Its number does not count, as
  /// some network file systems give another at each look.
  bool is_written_since(const FileState& before) const {
    return bytes != before.bytes || seconds != before.seconds || nanoseconds != before.nanoseconds;
  }
};

FileState file_state(const struct stat& status);
/// nullopt: the path leads to nothing. Throws std::runtime_error where nobody can tell.
std::optional<FileState> file_state(const std::filesystem::path& path);

/// Files as they are before their first byte is read, to be asked again after the last.
class FileGuard {
 public:
  FileGuard() = default;
  explicit FileGuard(const std::vector<std::filesystem::path>& files);
  /// Guards one more file, before its first read.
  void add(const std::filesystem::path& file);
  /// Guards a file that was in this state before its first read.
  void add(const std::filesystem::path& file, const FileState& state);
  /// Throws std::runtime_error("[scope] 'FILE' has changed ...") where a file has been written or
  /// replaced meanwhile. One that is gone was read as it was.
  void require_unchanged(std::string_view scope) const;
  /// Returns a line for each file with its name, bytes and time; a missing file has zeros.
  std::string states() const;

 private:
  std::vector<std::pair<std::filesystem::path, std::optional<FileState>>> files_;
};

/// The places of two lists that lead to the same files, the later one second; nullopt: all differ.
/// A list with a file that is gone meanwhile is like no other.
std::optional<std::pair<std::size_t, std::size_t>> same_files(
    const std::vector<std::vector<std::filesystem::path>>& lists);

}  // namespace dimred
