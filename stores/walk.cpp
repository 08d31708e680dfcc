#include "stores/walk.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Deleted or replaced since its name was read.
bool has_vanished(const std::error_code& failed) {
  return failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory;
}

/// Neither vanished nor a link in a circle, which leads to nothing as well: it may be a file, and
/// leaving it out would make a folder of a part of it.
bool hides_something(const std::error_code& failed) {
  return failed && !has_vanished(failed) && failed != std::errc::too_many_symbolic_link_levels;
}

void walk_into(const fs::path& folder,
               const std::string& before,
               std::vector<fs::path>& above,
               Walked& walked) {
  std::error_code failed;
  const auto own = fs::canonical(folder, failed);
  if (has_vanished(failed)) return;
  if (failed) throw fs::filesystem_error("list", folder, failed);
  require_environment(std::ranges::find(above, own) == above.end(),
                      "[stores] {} is a link to a folder that it lies in",
                      folder.string());
  fs::directory_iterator entries(folder, failed);
  if (has_vanished(failed)) return;
  if (failed) throw fs::filesystem_error("list", folder, failed);
  above.push_back(own);
  for (const auto& entry : entries) {
    const auto name = before + entry.path().filename().string();
    const auto kind = fs::status(entry.path(), failed);
    if (hides_something(failed)) throw fs::filesystem_error("look at", entry.path(), failed);
    if (fs::is_directory(kind)) {
      walk_into(entry.path(), name + '/', above, walked);
    } else if (fs::is_regular_file(kind)) {
      walked.files.push_back(name);
    } else if (fs::exists(fs::symlink_status(entry.path(), failed))) {
      walked.others.push_back(name);
    }
  }
  above.pop_back();
}

}  // namespace

bool is_own_cache(const fs::path& name) {
  const auto folder = name.parent_path();
  return std::ranges::find(folder, fs::path(".dimred")) != folder.end();
}

Walked walk(const fs::path& folder) {
  Walked walked;
  std::vector<fs::path> above;
  walk_into(folder, "", above, walked);
  std::ranges::sort(walked.files);
  std::ranges::sort(walked.others);
  return walked;
}

}  // namespace dimred::stores
