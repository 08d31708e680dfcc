#pragma once

#include <filesystem>

namespace dimred::checkpoints {

/// While it lives, nobody else gets the folder: flock of <folder>/.lock, which the kernel gives up
/// however the process ends. Throws std::runtime_error, with the holder's process id, when the
/// folder is taken. File systems without locks are not guarded.
class FolderLock {
 public:
  static constexpr const char* file_name = ".lock";

  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace dimred::checkpoints
