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

/// False when the file system has no such operation.
bool exchange(const fs::path& a, const fs::path& b) {
  const int result = retrying(
      [&] { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); });
  if (result == 0) return true;
  require_call(errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP, "rename", b);
  return false;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  require_call(retrying([&] { return ::rename(from.c_str(), to.c_str()); }) == 0, "rename", to);
}

/// Renames a folder to a free name, which no reader looks for, and returns this name.
fs::path set_aside(const fs::path& folder) {
  fs::path aside = folder.string() + ".old.tmp";
  for (int number = 2; fs::exists(fs::symlink_status(aside)); ++number)
    aside = formatted("{}.old{}.tmp", folder.string(), number);
  rename_folder(folder, aside);
  return aside;
}

}  // namespace

void commit_folder(const fs::path& temporary, const fs::path& final_path, Replacement replacement) {
  const auto parent = final_path.parent_path();
  sync_folder(temporary);
  if (!fs::exists(final_path)) {
    rename_folder(temporary, final_path);
    sync_folder(parent);
    return;
  }
  require_environment(
      fs::is_directory(final_path), "[file] '{}' exists and is not a folder", final_path);
  fs::path old = temporary;
  if (replacement == Replacement::two_renames || !exchange(temporary, final_path)) {
    old = set_aside(final_path);
    rename_folder(temporary, final_path);
  }
  sync_folder(parent);
  fs::remove_all(old);
}

void remove_folder(const fs::path& folder) { fs::remove_all(set_aside(folder)); }

}  // namespace dimred::checkpoints
