#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "support/descriptor.h"

namespace dimred::checkpoints {

/// The process that holds the folder's lock now; empty: nobody, or it cannot be read.
std::string holder_of(const std::filesystem::path& folder);

/// While it lives, nobody else gets the folder: flock of <folder>/.lock, which the kernel gives up
/// however the process ends. Throws std::runtime_error, with the holder's process id, when the
/// folder is taken. File systems without locks are not guarded: see limit().
class FolderLock {
 public:
  static constexpr const char* file_name = ".lock";

  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(FolderLock&&) = default;
  FolderLock& operator=(FolderLock&&) = delete;
  /// Gives the folder up for the children of a fork, too, which have copies of its descriptor.
  ~FolderLock();
  /// Nothing where the folder is taken.
  static std::optional<FolderLock> try_take(const std::filesystem::path& folder);

  /// Says why it may fail to keep others out, such as "may not reach other hosts (fuse.sshfs)";
  /// empty where no mount says so.
  std::string limit() const;

  /// Gives the folder up and removes the lock's file, so that copies of its descriptor in the
  /// children of a fork keep nobody out. In such a child it closes that copy alone.
  void remove();

 private:
  FolderLock(const std::filesystem::path& folder, Descriptor lock);

  std::filesystem::path folder_;
  pid_t owner_;
  Descriptor lock_;
};

}  // namespace dimred::checkpoints
