#include "data/cache_folder.h"

#include <unistd.h>

#include <stdexcept>
#include <string>

#include "support/digest.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

bool is_writable_folder(const fs::path& folder) {
  try {
    create_folders(folder);
  } catch (const std::runtime_error&) {
    return false;
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

fs::path cache_folder(const fs::path& folder, const fs::path& chosen) {
  if (!chosen.empty()) {
    require_environment(is_writable_folder(chosen),
                        "[cache] needs a writable folder for --data_cache, received {}",
                        chosen);
    return chosen;
  }
  auto beside = (folder.empty() ? fs::path(".") : folder) / ".dimred";
  if (!fs::is_symlink(beside) && is_writable_folder(beside)) return beside;
  fs::path home = environment_text("XDG_CACHE_HOME");
  const fs::path own_home = environment_text("HOME");
  if (home.empty() && !own_home.empty()) home = own_home / ".cache";
  if (home.empty()) return {};
  const auto name = fs::absolute(folder).lexically_normal().string();
  const auto own = home / "dimred" / digest(name);
  return is_writable_folder(own) ? own : fs::path();
}

CacheLock::CacheLock(const fs::path& cache) {
  try {
    lock_ = std::make_unique<FileLock>(cache / "lock");
    lock_->take(LockKind::exclusive);
  } catch (const std::runtime_error&) {
    lock_.reset();
  }
}

}  // namespace dimred::data
