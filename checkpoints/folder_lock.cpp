#include "checkpoints/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "support/errors.h"
#include "support/retry.h"

namespace dimred::checkpoints {
namespace {

/// What the holder wrote: its process id, or an empty text.
std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const auto count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / file_name;
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  descriptor_ = retrying([&] { return ::open(path.c_str(), flags, 0666); });
  require_environment(descriptor_ >= 0,
                      "file",
                      "cannot lock '",
                      folder.string(),
                      "': ",
                      std::generic_category().message(errno));
  const int locked = retrying([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); });
  if (locked != 0 && errno == EWOULDBLOCK) {
    const auto process = holder(descriptor_);
    ::close(descriptor_);
    throw std::runtime_error(concat("[file] '",
                                    folder.string(),
                                    "' is in use by process ",
                                    process.empty() ? "(unknown)" : process,
                                    "; wait for its end or choose another folder"));
  }
  const auto own = std::to_string(::getpid());
  // For the text above alone: a full disk is no reason to stop here.
  if (::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, own.data(), own.size(), 0) < 0)
    errno = 0;
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace dimred::checkpoints
