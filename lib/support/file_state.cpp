#include "support/file_state.h"

#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "support/errors.h"
#include "support/open_file.h"

namespace dimred {

FileState file_state(const struct stat& status) {
  return {static_cast<std::int64_t>(status.st_dev),
          static_cast<std::int64_t>(status.st_ino),
          status.st_size,
          status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

std::optional<FileState> file_state(const std::filesystem::path& path) {
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (!there && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return std::nullopt;
  require_call(there, "stat", path);
  return file_state(status);
}

FileGuard::FileGuard(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) add(file);
}

void FileGuard::add(const std::filesystem::path& file) {
  files_.emplace_back(file, file_state(file));
}

void FileGuard::add(const std::filesystem::path& file, const FileState& state) {
  files_.emplace_back(file, state);
}

void FileGuard::require_unchanged(std::string_view scope) const {
  for (const auto& [file, before] : files_) {
    const auto now = file_state(file);
    require_environment(
        !now || !before || !now->is_written_since(*before),
        "[{}] '{}' has changed while it was read; start again when no program writes to it",
        scope,
        file);
  }
}

std::string FileGuard::states() const {
  std::string text;
  for (const auto& [file, before] : files_) {
    const auto known = before.value_or(FileState{});
    text += file.string() + formatted(" {} {} {}\n", known.bytes, known.seconds, known.nanoseconds);
  }
  return text;
}

std::optional<std::pair<std::size_t, std::size_t>> same_files(
    const std::vector<std::vector<std::filesystem::path>>& lists) {
  std::map<std::vector<FileState>, std::size_t> seen;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::vector<FileState> states;
    for (const auto& file : lists[i])
      if (const auto state = file_state(file)) states.push_back(*state);
    if (states.empty() || states.size() < lists[i].size()) continue;
    const auto [at, fresh] = seen.emplace(std::move(states), i);
    if (!fresh) return std::pair(at->second, i);
  }
  return std::nullopt;
}

}  // namespace dimred
