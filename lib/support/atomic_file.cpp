#include "support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "support/descriptor.h"
#include "support/errors.h"
#include "support/file_lock.h"
#include "support/open_file.h"
#include "support/stopwatch.h"
#include "support/text.h"

namespace dimred {

namespace {

std::filesystem::path replaceable(std::filesystem::path path) {
  require_regular_or_absent(path);
  return path;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path final_path)
    : final_path_(replaceable(std::move(final_path))),
      temporary_path_(final_path_.string() + ".tmp"),
      descriptor_(open_locked(temporary_path_)) {
  require_environment(descriptor_ >= 0,
                      "[file] '{}' is being written by another program or thread",
                      temporary_path_);
  if (retrying([&] { return ::ftruncate(descriptor_, 0); }) != 0) {
    const int error = errno;
    ::unlink(temporary_path_.c_str());  // a constructor that throws has no destructor to do it
    fail_call("ftruncate", temporary_path_, error);
  }
}

AtomicFile::AtomicFile(std::filesystem::path final_path, Join)
    : final_path_(std::move(final_path)),
      temporary_path_(final_path_.string() + ".tmp"),
      descriptor_(open_no_follow(temporary_path_, O_RDWR)),
      joined_(true) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0 && !joined_) ::unlink(temporary_path_.c_str());
}

void AtomicFile::append(ByteView bytes) {
  write_at(position_, bytes);
  position_ += std::ssize(bytes);
}

void AtomicFile::write_at(std::int64_t offset, ByteView bytes) {
  write_exactly(descriptor_, offset, bytes, final_path_);
}

void AtomicFile::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  int result = retrying([&] { return ::fallocate(descriptor_, 0, 0, bytes); });
  // Where the file system cannot reserve, a full disk shows at the write instead.
  if (result != 0 && errno == EOPNOTSUPP)
    result = retrying([&] { return ::ftruncate(descriptor_, bytes); });
  require_call(result == 0, "fallocate", final_path_);
}

double AtomicFile::sync() {
  const Stopwatch watch;
  require_call(retrying([&] { return ::fsync(descriptor_); }) == 0, "fsync", final_path_);
  return watch.seconds();
}

double AtomicFile::commit() {
  check(!joined_, "AtomicFile::commit called by a process that only joined");
  check(descriptor_ >= 0, "AtomicFile::commit called twice");
  const double seconds = sync();
  const auto rename = [&] { return ::rename(temporary_path_.c_str(), final_path_.c_str()); };
  require_call(retrying(rename) == 0, "rename", final_path_);
  // The lock is held until here, so that no other writer can take the renamed file for its own.
  require_call(descriptor_.close() == 0 || errno == EINTR, "close", final_path_);
  const Stopwatch watch;
  sync_folder(final_path_.parent_path());
  return seconds + watch.seconds();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.append(text);
  file.commit();
}

void require_regular_or_absent(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const auto status = fs::symlink_status(path);
  require(!fs::is_directory(status), "[file] '{}' is a folder; give the name of a file", path);
  require(!fs::exists(status) || fs::is_regular_file(status),
          "[file] '{}' is a {}, which would be replaced; give a regular file or a new name",
          path,
          fs::is_symlink(status) ? "link" : "device, pipe or socket");
}

void remove_stale_temporaries(const std::filesystem::path& folder, std::string_view prefix) {
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".tmp") || !item.is_regular_file()) continue;
    const Descriptor opened(open_retrying(item.path(), O_RDWR | O_NOFOLLOW));
    if (opened < 0) continue;  // its writer has just renamed it, or it is a link
    if (try_lock(opened) == LockResult::taken && still_named(opened, item.path()))
      ::unlink(item.path().c_str());
  }
}

void write_exactly(int descriptor,
                   std::int64_t offset,
                   ByteView bytes,
                   const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written =
        retrying([&] { return ::pwrite(descriptor, bytes.data(), bytes.size(), offset); });
    require_call(written >= 0, "write", path);
    if (written == 0) fail_call("write", path, ENOSPC);
    bytes = bytes.subspan(written);
    offset += written;
  }
}

void read_exactly(int descriptor,
                  std::int64_t offset,
                  std::span<std::byte> out,
                  const std::filesystem::path& path) {
  while (!out.empty()) {
    const ssize_t count =
        retrying([&] { return ::pread(descriptor, out.data(), out.size(), offset); });
    require_call(count >= 0, "read", path);
    require_environment(
        count > 0, "[file] '{}' ends at byte {}, {} bytes too early", path, offset, out.size());
    out = out.subspan(count);
    offset += count;
  }
}

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(open_retrying(path_, O_RDONLY | O_NONBLOCK)) {  // a pipe is not waited for
  const bool there = descriptor_ >= 0 || (errno != ENOENT && errno != ENOTDIR);
  require(there, "[file] '{}' does not exist", path_);
  require_call(descriptor_ >= 0, "open", path_);
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  require(regular, "[file] '{}' needs to be a regular file", path_);
  state_ = file_state(status);
}

void InputFile::read(std::int64_t offset, std::span<std::byte> out) const {
  read_exactly(descriptor_, offset, out, path_);
}

void InputFile::read(std::int64_t begin, std::int64_t end, const ByteSink& sink) const {
  std::vector<std::byte> part(1 << 20);
  while (begin < end) {
    const auto size = std::min<std::int64_t>(end - begin, std::ssize(part));
    const auto bytes = std::span(part).first(size);
    read(begin, bytes);
    sink(bytes);
    begin += size;
  }
}

std::string InputFile::part(std::int64_t offset, std::int64_t size) const {
  std::string text(size, '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string InputFile::text(std::int64_t most) const {
  require_environment(
      size() <= most, "[file] '{}' needs at most {} bytes, received {}", path_, most, size());
  return part(0, size());
}

std::string InputFile::placeholder_remark() const {
  return dimred::placeholder_remark(part(0, std::min<std::int64_t>(64, size())));
}

bool InputFile::begins_with(std::string_view text) const {
  return size() >= std::ssize(text) && part(0, std::ssize(text)) == text;
}

}  // namespace dimred
