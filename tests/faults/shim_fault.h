#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string>

// Which system call a fault happens at, and what it is: the part of the shim behind the calls.
namespace dimred::faults {

enum class Kind : unsigned { open, stream, write, sync, size, rename, mkdir, remove };
enum class Action { count, exit_before, exit_after, tear, fail, shorten, delay };

/// The fault of one call.
struct Verdict {
  Action action = Action::count;
  int number = 0;  // errno of Action::fail, milliseconds of Action::delay
  bool halves() const { return action == Action::shorten || action == Action::tear; }
  bool dies_after() const { return action == Action::exit_after || action == Action::tear; }
};

/// Numbers the call, logs it, and waits or kills the process before it where that is asked for.
Verdict judge(Kind kind, const std::string& path);

/// SIGKILL, as a power cut or the kernel's memory killer would.
[[noreturn]] void die();

std::string path_of(int descriptor);

/// `path` as the call sees it, relative to the folder descriptor where it is relative.
std::string absolute(const char* path, int folder);

template <class Call>
auto carry_out(Kind kind, const std::string& path, Call call) -> decltype(call()) {
  const Verdict verdict = judge(kind, path);
  if (verdict.action == Action::fail) {
    errno = verdict.number;
    return static_cast<decltype(call())>(-1);
  }
  const auto result = call();
  if (verdict.dies_after()) die();
  return result;
}

/// A write of `size` bytes; `call` takes how many of them.
template <class Call>
ssize_t carry_out_write(int descriptor, std::size_t size, Call call) {
  const Verdict verdict = judge(Kind::write, path_of(descriptor));
  if (verdict.action == Action::fail) {
    errno = verdict.number;
    return -1;
  }
  const ssize_t result = call(verdict.halves() && size > 1 ? size / 2 : size);
  if (verdict.dies_after()) die();
  return result;
}

}  // namespace dimred::faults
