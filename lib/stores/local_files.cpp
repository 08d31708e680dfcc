#include "stores/local_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "support/atomic_file.h"
#include "support/file_state.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Deleted or replaced since its name was read.
bool has_vanished(int error) { return error == ENOENT || error == ENOTDIR; }

[[noreturn]] void fail_local(const char* doing, const fs::path& path, int error) {
  throw fs::filesystem_error(doing, path, std::error_code(error, std::generic_category()));
}

/// Returns the type behind a path; nullopt if it has vanished, or is a link to nothing or in a
/// circle. An unknown type may be a file; a folder without it would be incomplete.
std::optional<struct stat> target_of(const fs::path& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) == 0) return state;
  if (errno != ELOOP && !has_vanished(errno)) fail_local("look at", path, errno);
  return std::nullopt;
}

std::string stamp_text(const FileState& state) {
  return formatted("{} {}.{}-{}", state.bytes, state.seconds, state.nanoseconds, state.number);
}

using Identity = std::pair<dev_t, ino_t>;

/// Adds what lies in `folder` (`name` below the root); `above`: the folders that it lies in.
void walk_into(const fs::path& folder,
               const fs::path& name,
               std::vector<Identity>& above,
               Walked& walked) {
  std::error_code error;  // also of a disk that fails in the midst of the names
  for (fs::directory_iterator item(folder, error), end; !error && item != end;
       item.increment(error)) {
    const auto& path = item->path();
    const auto inner = name / path.filename();
    const auto state = target_of(path);
    if (!state) {
      std::error_code vanished;
      if (fs::is_symlink(path, vanished)) walked.others.push_back(inner.string());
    } else if (S_ISDIR(state->st_mode)) {
      const Identity own{state->st_dev, state->st_ino};
      if (std::ranges::find(above, own) != above.end())
        fail_environment("[stores] {} is a link to a folder that it lies in", path.string());
      above.push_back(own);
      walk_into(path, inner, above, walked);
      above.pop_back();
    } else {
      (S_ISREG(state->st_mode) ? walked.files : walked.others).push_back(inner.string());
    }
  }
  if (error && !has_vanished(error.value())) fail_local("list", folder, error.value());
}

}  // namespace

Walked walk(const fs::path& folder) {
  Walked walked;
  std::vector<Identity> above;
  if (const auto root = target_of(folder)) above.emplace_back(root->st_dev, root->st_ino);
  walk_into(folder, {}, above, walked);
  std::ranges::sort(walked.files);
  std::ranges::sort(walked.others);
  return walked;
}

bool is_own_cache(const fs::path& name) {
  const auto folder = name.parent_path();
  return std::ranges::find(folder, fs::path(".dimred")) != folder.end();
}

std::string text_or_none(const fs::path& file) {
  if (!fs::exists(file)) return "";
  const InputFile in(file);
  return in.text(in.size());
}

std::string stamp_of(const fs::path& file) {
  struct stat state {};
  return ::stat(file.c_str(), &state) == 0 && S_ISREG(state.st_mode) ? stamp_text(file_state(state))
                                                                     : "";
}

std::optional<Item> look_at_file(const fs::path& file) {
  const auto state = target_of(file);
  if (!state || !S_ISREG(state->st_mode)) return std::nullopt;
  return Item{"", state->st_size, stamp_text(file_state(*state))};
}

}  // namespace dimred::stores
