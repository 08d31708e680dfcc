#include "support/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "support/descriptor.h"
#include "support/errors.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_link(const fs::path& path) {
  fail_environment(
      "[file] '{}' is a link, but dimred does not write through links inside an output folder; "
      "remove the link or choose another folder",
      path);
}

void sync_path(const fs::path& path, int flags) {
  const Descriptor opened(open_retrying(path, O_RDONLY | flags));
  require_call(opened >= 0, "open", path);
  const bool synced = retrying([&] { return ::fsync(opened); }) == 0;
  // Some network file systems cannot sync a folder (EINVAL); their renames are durable on reply.
  require_call(synced || (flags == O_DIRECTORY && errno == EINVAL), "fsync", path);
}

}  // namespace

int open_retrying(const fs::path& path, int flags) {
  const int opened = retrying([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (opened < 0 || opened > STDERR_FILENO) return opened;
  const Descriptor taken(opened);
  return ::fcntl(taken, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

void fail_call(std::string_view call, const fs::path& path, int error) {
  fail_environment("[file] {} '{}' failed: {} (errno {})",
                   call,
                   path,
                   std::generic_category().message(error),
                   error);
}

void require_call(bool done, std::string_view call, const fs::path& path) {
  if (!done) fail_call(call, path, errno);
}

Descriptor open_no_follow(const fs::path& path, int flags) {
  Descriptor opened(open_retrying(path, flags | O_NOFOLLOW | O_NONBLOCK));
  if (opened < 0 && errno == ELOOP) refuse_link(path);
  require_call(opened >= 0, "open", path);
  struct stat status {};
  require_environment(::fstat(opened, &status) == 0 && S_ISREG(status.st_mode),
                      "[file] '{}' needs to be a regular file",
                      path);
  return opened;
}

std::ofstream open_output(const fs::path& path, std::ios::openmode mode) {
  const auto opened = open_no_follow(path, O_RDWR | O_CREAT);
  std::ofstream out;
  // A signal may interrupt the opening; the streams do not try again by themselves.
  do {
    errno = 0;
    out.clear();
    out.open("/proc/self/fd/" + std::to_string(opened), mode);
  } while (!out.good() && errno == EINTR);
  return out;
}

void truncate_file(const fs::path& path, std::int64_t length) {
  const auto opened = open_no_follow(path, O_RDWR);
  require_call(retrying([&] { return ::ftruncate(opened, length); }) == 0, "ftruncate", path);
}

void sync_file(const fs::path& path) { sync_path(path, 0); }

void sync_folder(const fs::path& folder) { sync_path(folder.empty() ? "." : folder, O_DIRECTORY); }

bool create_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return false;
  bool created = create_folders(folder.parent_path());
  if (retrying([&] { return ::mkdir(folder.c_str(), 0777); }) == 0)
    created = true;
  else if (errno != EEXIST)
    fail_call("mkdir", folder, errno);
  require_environment(fs::is_directory(folder), "[file] '{}' needs to be a folder", folder);
  sync_folder(folder.parent_path());
  return created;
}

void create_folder_in_existing(const fs::path& folder) {
  const auto parent = folder.parent_path();
  require_environment(fs::is_directory(parent.empty() ? "." : parent),
                      "[file] the folder '{}' was removed while dimred used it",
                      parent);
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
