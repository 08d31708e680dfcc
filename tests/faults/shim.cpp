// The libc functions that libfault_shim.so puts in front of the real ones; shim_fault.cpp decides.

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

#include "tests/faults/shim_fault.h"

namespace {

using namespace dimred::faults;

/// The next definition of the function behind this library's.
template <class Function>
Function* next(Function* /*of the same type*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool writes(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0; }

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const auto call = [&] {
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  };
  return writes(flags) ? carry_out(Kind::open, absolute(path, folder), call) : call();
}

/// nullptr on a failure, where carry_out's -1 would be a pointer.
template <class Function>
FILE* open_stream(Function* real, const char* path, const char* mode) {
  if (std::strpbrk(mode, "wa+") == nullptr) return real(path, mode);
  FILE* stream = nullptr;
  const int result = carry_out(Kind::stream, absolute(path, AT_FDCWD), [&] {
    stream = real(path, mode);
    return 0;
  });
  return result == 0 ? stream : nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  static auto* const real = next(&fopen, "fopen");
  return open_stream(real, path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  static auto* const real = next(&fopen64, "fopen64");
  return open_stream(real, path, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  return carry_out_write(
      descriptor, size, [&](size_t part) { return syscall(SYS_write, descriptor, bytes, part); });
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  return carry_out_write(descriptor, size, [&](size_t part) {
    return syscall(SYS_pwrite64, descriptor, bytes, part, offset);
  });
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
  return pwrite(descriptor, bytes, size, offset);
}

// Half of a vector of pieces: half of the first that holds anything.
ssize_t writev(int descriptor, const iovec* pieces, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return carry_out_write(descriptor, size, [&](size_t part) -> ssize_t {
    if (part == size) return syscall(SYS_writev, descriptor, pieces, count);
    int first = 0;
    while (pieces[first].iov_len == 0) ++first;
    const size_t half = (pieces[first].iov_len + 1) / 2;
    return syscall(SYS_write, descriptor, pieces[first].iov_base, half);
  });
}

int fsync(int descriptor) {
  return carry_out(Kind::sync, path_of(descriptor), [&] {
    return static_cast<int>(syscall(SYS_fsync, descriptor));
  });
}

int fdatasync(int descriptor) {
  return carry_out(Kind::sync, path_of(descriptor), [&] {
    return static_cast<int>(syscall(SYS_fdatasync, descriptor));
  });
}

int ftruncate(int descriptor, off_t length) noexcept {
  return carry_out(Kind::size, path_of(descriptor), [&] {
    return static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
  });
}

int ftruncate64(int descriptor, off64_t length) noexcept { return ftruncate(descriptor, length); }

int truncate(const char* path, off_t length) noexcept {
  return carry_out(Kind::size, absolute(path, AT_FDCWD), [&] {
    return static_cast<int>(syscall(SYS_truncate, path, length));
  });
}

int truncate64(const char* path, off64_t length) noexcept { return truncate(path, length); }

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  return carry_out(Kind::size, path_of(descriptor), [&] {
    return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, offset, length));
  });
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t length) {
  return fallocate(descriptor, mode, offset, length);
}

// Returns the error instead of setting errno.
int posix_fallocate(int descriptor, off_t offset, off_t length) {
  return fallocate(descriptor, 0, offset, length) == 0 ? 0 : errno;
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t length) {
  return posix_fallocate(descriptor, offset, length);
}

int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return carry_out(Kind::rename, absolute(to, to_folder), [&] {
    return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return renameat2(from_folder, from, to_folder, to, 0);
}

int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return carry_out(Kind::mkdir, absolute(path, folder), [&] {
    return static_cast<int>(syscall(SYS_mkdirat, folder, path, mode));
  });
}

int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int folder, const char* path, int flags) noexcept {
  return carry_out(Kind::remove, absolute(path, folder), [&] {
    return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
  });
}

int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char* path) noexcept {
  return carry_out(Kind::remove, absolute(path, AT_FDCWD), [&] {
    const auto file = static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
    if (file == 0 || errno != EISDIR) return file;
    return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
  });
}

}  // extern "C"
#pragma GCC visibility pop
