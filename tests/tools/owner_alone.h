#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace dimred {

/// Gives up root's right to open what its mode forbids, for a while, in this thread and in its new
/// threads. The user stays root, because another user could not reach a folder in /root.
class OwnerAlone {
 public:
  OwnerAlone() {
    if (!call(SYS_capget, before_)) throw std::runtime_error("capget failed");
    auto rights = before_;
    rights[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    if (!call(SYS_capset, rights)) throw std::runtime_error("capset failed");
  }
  ~OwnerAlone() {
    if (!call(SYS_capset, before_)) std::abort();
  }
  OwnerAlone(const OwnerAlone&) = delete;
  OwnerAlone& operator=(const OwnerAlone&) = delete;

 private:
  using Rights = std::array<__user_cap_data_struct, 2>;

  static bool call(long number, Rights& rights) {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(number, &head, rights.data()) == 0;
  }

  Rights before_{};
};

}  // namespace dimred
