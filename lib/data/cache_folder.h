#pragma once

#include <filesystem>
#include <memory>

#include "support/file_lock.h"

namespace dimred::data {

/// The folder for caches of data in `folder`: `chosen` unless empty; else `folder`/.dimred if it
/// can be written; else dimred/<digest of the folder's path> in $XDG_CACHE_HOME or ~/.cache.
/// Created. A `.dimred` that is a link is not used. Returns an empty path when none of these can be
/// written, which is an error for `chosen` (std::runtime_error).
std::filesystem::path cache_folder(const std::filesystem::path& folder,
                                   const std::filesystem::path& chosen);

/// Held while one process of the host makes what the others wait for. Each process makes its own if
/// the lock fails.
class CacheLock {
 public:
  explicit CacheLock(const std::filesystem::path& cache);

 private:
  std::unique_ptr<FileLock> lock_;
};

}  // namespace dimred::data
