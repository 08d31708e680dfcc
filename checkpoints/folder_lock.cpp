#include "checkpoints/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "checkpoints/lock_reach.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/file_lock.h"
#include "support/open_file.h"

namespace dimred::checkpoints {
namespace {

/// The holder's note: its process id, or an empty text.
std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const auto count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), count) : "";
}

}  // namespace

std::string holder_of(const std::filesystem::path& folder) {
  const Descriptor opened(
      open_retrying(folder / FolderLock::file_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  // Shared, so that two who ask do not take one another for the holder.
  return try_lock(opened, LockKind::shared) == LockResult::busy ? holder(opened) : "";
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : FolderLock(folder, open_locked(folder / file_name)) {
  if (lock_ >= 0) return;
  const auto process = holder_of(folder);
  fail_environment(
      "[file] '{}' is in use by process {}; wait until this process ends or choose another folder",
      folder,
      process.empty() ? "(unknown)" : process);
}

FolderLock::FolderLock(const std::filesystem::path& folder, Descriptor lock)
    : folder_(folder), owner_(::getpid()), lock_(std::move(lock)) {
  if (lock_ < 0) return;
  const auto own = std::to_string(owner_);
  if (retrying([&] { return ::ftruncate(lock_, 0); }) != 0) return;
  try {
    write_exactly(lock_, 0, std::as_bytes(std::span(own)), folder_ / file_name);
  } catch (const std::runtime_error&) {
    // Only messages need it: a full disk is no reason to stop here.
  }
}

std::optional<FolderLock> FolderLock::try_take(const std::filesystem::path& folder) {
  FolderLock lock(folder, open_locked(folder / file_name));
  if (lock.lock_ < 0) return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (lock_ >= 0 && ::getpid() == owner_) ::flock(lock_, LOCK_UN);
}

std::string FolderLock::limit() const {
  if (try_lock(lock_) == LockResult::unsupported) return "is not possible on this file system";
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts{std::istreambuf_iterator<char>(file), {}};
  const auto why = local_locks(folder_, mounts);
  return why.empty() ? why : formatted("may not reach other hosts ({})", why);
}

void FolderLock::remove() {
  if (lock_ >= 0 && ::getpid() == owner_) ::unlink((folder_ / file_name).c_str());
  lock_.close();
}

}  // namespace dimred::checkpoints
