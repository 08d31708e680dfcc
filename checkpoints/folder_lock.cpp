#include "checkpoints/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "support/errors.h"
#include "support/file_lock.h"
#include "support/open_file.h"

namespace dimred::checkpoints {
namespace {

/// The holder's note: its process id, or an empty text.
std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const auto count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  descriptor_ = open_no_follow(folder / file_name, O_RDWR | O_CREAT);
  if (try_lock(descriptor_) == LockResult::busy) {
    const auto process = holder(descriptor_);
    ::close(descriptor_);
    throw std::runtime_error(
        formatted("[file] '{}' is in use by process {}; wait for its end or choose another folder",
                  folder.string(),
                  process.empty() ? "(unknown)" : process));
  }
  const auto own = std::to_string(::getpid());
  // For the text above alone: a full disk is no reason to stop here.
  if (::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, own.data(), own.size(), 0) < 0)
    errno = 0;
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace dimred::checkpoints
