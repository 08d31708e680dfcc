#pragma once

#include <ctime>

// One Ctrl-C may reach a process twice: the terminal and a launcher such as torchrun both pass it
// on.
namespace dimred {

/// Returns the time of the monotonic clock in milliseconds. A signal handler may call it.
inline long monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

/// Returns true where a signal now is still the keystroke of `earlier_ms`, a time of
/// monotonic_ms(). A signal handler may call it.
inline bool is_same_keystroke(long earlier_ms) {
  constexpr long longest_ms = 500;
  return monotonic_ms() - earlier_ms <= longest_ms;
}

}  // namespace dimred
