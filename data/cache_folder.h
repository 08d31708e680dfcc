#pragma once

#include <filesystem>

namespace dimred::data {

/// The folder for caches of data in `folder`: `chosen` unless empty; else `folder`/.dimred if it
/// can be written; else dimred/<digest of the folder's path> in $XDG_CACHE_HOME or ~/.cache.
/// Created. Empty when none of these can be written, which is an error for `chosen`
/// (std::runtime_error).
std::filesystem::path cache_folder(const std::filesystem::path& folder,
                                   const std::filesystem::path& chosen);

/// Held while one process of the host makes what the others wait for. Where a file system has no
/// locks each makes its own.
class CacheLock {
 public:
  explicit CacheLock(const std::filesystem::path& cache);
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace dimred::data
