#pragma once

#include <filesystem>

#include "support/descriptor.h"

namespace dimred {

enum class LockKind { shared, exclusive };
/// unsupported: a file system without locks (flock), where nothing can be guarded.
enum class LockResult { taken, busy, unsupported };

/// flock of an open file, without waiting.
LockResult try_lock(int descriptor, LockKind kind = LockKind::exclusive);

/// True while `path` still names the open file: an earlier holder of its lock may have renamed it.
bool still_named(int descriptor, const std::filesystem::path& path);

/// Opens the file, created where there is none, and locks it; < 0 while another process has it.
/// Throws as open_no_follow() does.
Descriptor open_locked(const std::filesystem::path& path);

/// A file whose flock this process may take; the kernel gives it up however the process ends.
class FileLock {
 public:
  /// Creates the file. Throws std::runtime_error.
  explicit FileLock(const std::filesystem::path& file);

  /// False while another process has it in a way that excludes this. One taken earlier is replaced.
  bool try_take(LockKind kind);
  /// Waits for it.
  void take(LockKind kind);

 private:
  Descriptor descriptor_;
};

}  // namespace dimred
