#pragma once

#include <filesystem>

namespace dimred {

enum class LockKind { shared, exclusive };
/// unsupported: a file system without locks (flock), where nothing can be guarded.
enum class LockResult { taken, busy, unsupported };

/// flock of an open file, without waiting.
LockResult try_lock(int descriptor, LockKind kind = LockKind::exclusive);

/// True while `path` still names the open file: an earlier holder of its lock may have renamed it.
bool still_named(int descriptor, const std::filesystem::path& path);

/// A file whose flock this process may take; the kernel gives it up however the process ends.
class FileLock {
 public:
  /// Creates the file. Throws std::runtime_error.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// False while another process has it in a way that excludes this. One taken earlier is replaced.
  bool try_take(LockKind kind);
  int descriptor() const { return descriptor_; }
  /// Waits for it.
  void take(LockKind kind);

 private:
  int descriptor_ = -1;
};

}  // namespace dimred
