#include "support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "support/errors.h"
#include "support/file_lock.h"
#include "support/open_file.h"
#include "support/retry.h"

namespace dimred {
namespace {

void fail_if(bool failed, std::string_view call, const std::filesystem::path& path) {
  if (failed) fail_call(call, path, errno);
}

int open_temporary(const std::filesystem::path& path) {
  while (true) {
    const int descriptor = open_no_follow(path, O_RDWR | O_CREAT);
    if (try_lock(descriptor) == LockResult::busy) {
      ::close(descriptor);
      throw std::runtime_error(formatted("[file] '{}' is being written by another writer", path));
    }
    if (still_named(descriptor, path)) return descriptor;
    ::close(descriptor);
  }
}

double timed_sync(int descriptor, const std::filesystem::path& path) {
  const auto start = std::chrono::steady_clock::now();
  fail_if(retrying([&] { return ::fsync(descriptor); }) != 0, "fsync", path);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path final_path)
    : final_path_(std::move(final_path)), temporary_path_(final_path_.string() + ".tmp") {
  descriptor_ = open_temporary(temporary_path_);
  if (retrying([&] { return ::ftruncate(descriptor_, 0); }) != 0) {
    const int error = errno;
    ::unlink(temporary_path_.c_str());  // a constructor that throws has no destructor to do it
    ::close(descriptor_);
    fail_call("ftruncate", temporary_path_, error);
  }
}

AtomicFile::AtomicFile(std::filesystem::path final_path, Join)
    : final_path_(std::move(final_path)),
      temporary_path_(final_path_.string() + ".tmp"),
      descriptor_(open_no_follow(temporary_path_, O_RDWR)),
      joined_(true) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  if (!joined_) ::unlink(temporary_path_.c_str());
  ::close(descriptor_);
}

void AtomicFile::append(ByteView bytes) {
  write_at(position_, bytes);
  position_ += std::ssize(bytes);
}

void AtomicFile::write_at(std::int64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        retrying([&] { return ::pwrite(descriptor_, bytes.data(), bytes.size(), offset); });
    fail_if(written < 0, "write", final_path_);
    if (written == 0) fail_call("write", final_path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void AtomicFile::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  int result = retrying([&] { return ::fallocate(descriptor_, 0, 0, bytes); });
  // Where the file system cannot reserve, a full disk shows at the write instead.
  if (result != 0 && errno == EOPNOTSUPP)
    result = retrying([&] { return ::ftruncate(descriptor_, bytes); });
  fail_if(result != 0, "fallocate", final_path_);
}

double AtomicFile::sync() { return timed_sync(descriptor_, final_path_); }

double AtomicFile::commit() {
  check(!joined_, "AtomicFile::commit called by a process that only joined");
  check(descriptor_ >= 0, "AtomicFile::commit called twice");
  const double seconds = sync();
  const auto rename = [&] { return ::rename(temporary_path_.c_str(), final_path_.c_str()); };
  fail_if(retrying(rename) != 0, "rename", final_path_);
  // The lock is held until here, so that no other writer can take the renamed file for its own.
  const int closed = ::close(std::exchange(descriptor_, -1));
  fail_if(closed != 0 && errno != EINTR, "close", final_path_);
  const auto start = std::chrono::steady_clock::now();
  sync_folder(final_path_.parent_path());
  return seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.append(text);
  file.commit();
}

void sync_file(const std::filesystem::path& path) {
  const int descriptor = open_retrying(path, O_RDONLY);
  fail_if(descriptor < 0, "open", path);
  const int result = retrying([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  if (result != 0) fail_call("fsync", path, error);
}

void remove_stale_temporaries(const std::filesystem::path& folder, std::string_view prefix) {
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".tmp") || !item.is_regular_file()) continue;
    const int descriptor = open_retrying(item.path(), O_RDWR | O_NOFOLLOW);
    if (descriptor < 0) continue;  // its writer has just renamed it, or it is a link
    if (try_lock(descriptor) == LockResult::taken && still_named(descriptor, item.path())) {
      ::unlink(item.path().c_str());
    }
    ::close(descriptor);
  }
}

void read_exactly(int descriptor,
                  std::int64_t offset,
                  std::span<std::byte> out,
                  const std::filesystem::path& path) {
  while (!out.empty()) {
    const ssize_t count =
        retrying([&] { return ::pread(descriptor, out.data(), out.size(), offset); });
    fail_if(count < 0, "read", path);
    require_environment(
        count > 0, "[file] '{}' ends at byte {}, {} bytes too early", path, offset, out.size());
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open_retrying(path_, O_RDONLY | O_NONBLOCK);  // a pipe is refused, not waited for
  if (descriptor_ < 0) {
    require(errno != ENOENT && errno != ENOTDIR, "[file] '{}' does not exist", path_);
    fail_call("open", path_, errno);
  }
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) ::close(descriptor_);
  require(regular, "[file] '{}' needs to be a regular file", path_);
  size_ = status.st_size;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

void InputFile::read(std::int64_t offset, std::span<std::byte> out) const {
  read_exactly(descriptor_, offset, out, path_);
}

void InputFile::read(std::int64_t offset,
                     const std::function<void(std::span<const std::byte>)>& sink) const {
  std::vector<std::byte> part(1 << 20);
  while (offset < size_) {
    const auto size = std::min<std::int64_t>(size_ - offset, std::ssize(part));
    const auto bytes = std::span(part).first(size);
    read(offset, bytes);
    sink(bytes);
    offset += size;
  }
}

std::string InputFile::part(std::int64_t offset, std::int64_t size) const {
  std::string text(size, '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string InputFile::text(std::int64_t most) const {
  require_environment(
      size_ <= most, "[file] '{}' needs at most {} bytes, received {}", path_, most, size_);
  return part(0, size_);
}

bool InputFile::begins_with(std::string_view text) const {
  return size_ >= std::ssize(text) && part(0, std::ssize(text)) == text;
}

}  // namespace dimred
