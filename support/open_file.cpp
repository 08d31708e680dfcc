#include "support/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "support/errors.h"
#include "support/retry.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

/// A system call's result on a descriptor that is closed afterwards.
template <class Call>
void call_and_close(const char* name, const fs::path& path, int descriptor, Call call) {
  const int result = retrying(call);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) fail_call(name, path, error);
}

[[noreturn]] void refuse_link(const fs::path& path) {
  throw std::runtime_error(
      formatted("[file] '{}' is a link, and nothing is written through a link inside an output "
                "folder; remove it or choose another folder",
                path));
}

}  // namespace

int open_retrying(const fs::path& path, int flags) {
  return retrying([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

void fail_call(std::string_view call, const fs::path& path, int error) {
  throw std::runtime_error(formatted("[file] {} '{}' failed: {} (errno {})",
                                     call,
                                     path,
                                     std::generic_category().message(error),
                                     error));
}

int open_no_follow(const fs::path& path, int flags) {
  const int descriptor = open_retrying(path, flags | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ELOOP) refuse_link(path);
  if (descriptor < 0) fail_call("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
  ::close(descriptor);
  throw std::runtime_error(formatted("[file] '{}' needs to be a regular file", path));
}

std::ofstream open_output(const fs::path& path, std::ios::openmode mode) {
  const int descriptor = open_no_follow(path, O_RDWR | O_CREAT);
  std::ofstream out;
  // A signal may interrupt the opening; the streams do not try again by themselves.
  do {
    errno = 0;
    out.clear();
    out.open("/proc/self/fd/" + std::to_string(descriptor), mode);
  } while (!out.good() && errno == EINTR);
  ::close(descriptor);
  return out;
}

void truncate_file(const fs::path& path, std::int64_t length) {
  const int descriptor = open_no_follow(path, O_RDWR);
  call_and_close("ftruncate", path, descriptor, [&] { return ::ftruncate(descriptor, length); });
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open_retrying(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail_call("open", folder, errno);
  call_and_close("fsync", folder, descriptor, [&] {
    const int result = ::fsync(descriptor);
    // Some network file systems cannot sync a folder (EINVAL); their renames are durable on reply.
    return result != 0 && errno == EINVAL ? 0 : result;
  });
}

void create_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  create_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail_call("mkdir", folder, errno);
  require_environment(fs::is_directory(folder), "[file] '{}' needs to be a folder", folder);
  sync_folder(folder.parent_path());
}

void create_folder_in_existing(const fs::path& folder) {
  const auto parent = folder.parent_path();
  require_environment(fs::is_directory(parent.empty() ? "." : parent),
                      "[file] the folder '{}' is gone: it was removed while it was in use",
                      parent.string());
  create_folders_inside(parent, folder);
}

void create_folders_inside(const fs::path& root, const fs::path& folder) {
  create_folders(root);
  auto at = root;
  for (const auto& part : folder.lexically_relative(root)) {
    at /= part;
    if (fs::is_symlink(at)) refuse_link(at);
    create_folders(at);
  }
}

}  // namespace dimred
