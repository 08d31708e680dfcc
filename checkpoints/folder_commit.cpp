#include "checkpoints/folder_commit.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "support/atomic_file.h"
#include "support/descriptor.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

enum class Renaming { done, in_the_way, not_supported };

/// renameat2 with RENAME_EXCHANGE or RENAME_NOREPLACE.
Renaming rename_with(unsigned flag, const fs::path& from, const fs::path& to) {
  if (retrying([&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flag); }) ==
      0)
    return Renaming::done;
  if (errno == EEXIST) return Renaming::in_the_way;
  require_call(errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP, "rename", to);
  return Renaming::not_supported;
}

/// Renames a folder to a free name, which no reader looks for, and returns this name.
fs::path set_aside(const fs::path& folder) {
  fs::path aside = folder.string() + ".old.tmp";
  for (int number = 2; !rename_to_new(folder, aside); ++number)
    aside = formatted("{}.old{}.tmp", folder.string(), number);
  return aside;
}

}  // namespace

bool rename_to_new(const fs::path& from, const fs::path& to) {
  const auto renaming = rename_with(RENAME_NOREPLACE, from, to);
  if (renaming != Renaming::not_supported) return renaming == Renaming::done;
  if (fs::exists(fs::symlink_status(to))) return false;
  require_call(retrying([&] { return ::rename(from.c_str(), to.c_str()); }) == 0, "rename", to);
  return true;
}

void commit_folder(const fs::path& temporary, const fs::path& final_path, Replacement replacement) {
  const auto parent = final_path.parent_path();
  sync_folder(temporary);
  if (rename_to_new(temporary, final_path)) {
    sync_folder(parent);
    return;
  }
  require_environment(replacement != Replacement::none,
                      "[file] another program created '{}' meanwhile",
                      final_path);
  require_environment(
      fs::is_directory(final_path), "[file] '{}' exists and is not a folder", final_path);
  fs::path old = temporary;
  if (replacement == Replacement::two_renames ||
      rename_with(RENAME_EXCHANGE, temporary, final_path) != Renaming::done) {
    old = set_aside(final_path);
    require_environment(
        rename_to_new(temporary, final_path),
        "[file] another program created '{}' meanwhile; what had this name before is '{}'",
        final_path,
        old);
  }
  sync_folder(parent);
  fs::remove_all(old);
}

void remove_folder(const fs::path& folder) { fs::remove_all(set_aside(folder)); }

}  // namespace dimred::checkpoints
