#pragma once

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace dimred {

/// Gives up what root may read everywhere, for a while.
struct AsNobody {
  const uid_t user = ::geteuid();
  AsNobody() {
    if (user == 0 && ::seteuid(65534) != 0) throw std::runtime_error("seteuid failed");
  }
  ~AsNobody() {
    if (user == 0 && ::seteuid(0) != 0) std::abort();
  }
};

}  // namespace dimred
