#include "checkpoints/folder_commit.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "checkpoints/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// False when the file system has no such operation.
bool exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int error = errno;
  require_environment(error == EINVAL || error == ENOSYS || error == EOPNOTSUPP,
                      "file",
                      "rename '",
                      b.string(),
                      "' failed: ",
                      std::generic_category().message(error),
                      " (errno ",
                      error,
                      ")");
  return false;
}

}  // namespace

void commit_folder(const fs::path& temporary, const fs::path& final_path, Replacement replacement) {
  const fs::path parent = final_path.has_parent_path() ? final_path.parent_path() : fs::path(".");
  sync_folder(temporary);
  if (!fs::exists(final_path)) {
    fs::rename(temporary, final_path);
    sync_folder(parent);
    return;
  }
  require_environment(fs::is_directory(final_path),
                      "file",
                      "'",
                      final_path.string(),
                      "' exists and is not a folder");
  fs::path old = temporary;
  if (replacement == Replacement::two_renames || !exchange(temporary, final_path)) {
    old = final_path.string() + ".old.tmp";
    fs::remove_all(old);
    fs::rename(final_path, old);
    fs::rename(temporary, final_path);
  }
  sync_folder(parent);
  fs::remove_all(old);
}

}  // namespace dimred::checkpoints
