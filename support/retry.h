#pragma once

#include <cerrno>

namespace dimred {

/// The system call `call`, made again for as long as a signal interrupts it; what it returned last.
/// Disks do not interrupt, network file systems may.
template <class Call>
auto retrying(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace dimred
