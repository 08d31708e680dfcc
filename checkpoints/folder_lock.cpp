#include "checkpoints/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "checkpoints/lock_reach.h"
#include "support/errors.h"
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
    : folder_(folder), lock_(folder / file_name) {
  if (!lock_.try_take(LockKind::exclusive)) {
    const auto process = holder(lock_.descriptor());
    fail_environment(
        "[file] '{}' is in use by process {}; wait for its end or choose another folder",
        folder,
        process.empty() ? "(unknown)" : process);
  }
  const auto own = std::to_string(::getpid());
  // For the text above alone: a full disk is no reason to stop here.
  if (::ftruncate(lock_.descriptor(), 0) == 0 &&
      ::pwrite(lock_.descriptor(), own.data(), own.size(), 0) < 0)
    errno = 0;
}

std::string FolderLock::limit() const {
  if (try_lock(lock_.descriptor()) == LockResult::unsupported)
    return "is not possible on this file system";
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts{std::istreambuf_iterator<char>(file), {}};
  const auto why = local_locks(folder_, mounts);
  return why.empty() ? why : formatted("may not reach other hosts ({})", why);
}

}  // namespace dimred::checkpoints
