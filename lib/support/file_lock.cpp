#include "support/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/descriptor.h"
#include "support/open_file.h"

namespace dimred {
namespace {

int operation_of(LockKind kind) { return kind == LockKind::shared ? LOCK_SH : LOCK_EX; }

}  // namespace

LockResult try_lock(int descriptor, LockKind kind) {
  if (retrying([&] { return ::flock(descriptor, operation_of(kind) | LOCK_NB); }) == 0)
    return LockResult::taken;
  return errno == EWOULDBLOCK ? LockResult::busy : LockResult::unsupported;
}

bool still_named(int descriptor, const std::filesystem::path& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(descriptor, &open_file) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

Descriptor open_locked(const std::filesystem::path& path) {
  while (true) {
    auto opened = open_no_follow(path, O_RDWR | O_CREAT);
    if (try_lock(opened) == LockResult::busy) return Descriptor(-1);
    if (still_named(opened, path)) return opened;
  }
}

FileLock::FileLock(const std::filesystem::path& file)
    : descriptor_(open_no_follow(file, O_RDWR | O_CREAT)) {}

bool FileLock::try_take(LockKind kind) { return try_lock(descriptor_, kind) != LockResult::busy; }

void FileLock::take(LockKind kind) {
  retrying([&] { return ::flock(descriptor_, operation_of(kind)); });
}

}  // namespace dimred
