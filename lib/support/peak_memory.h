#pragma once

#include <cstdint>

namespace dimred {

/// Largest resident memory of this process so far, in bytes (VmHWM of /proc: getrusage would count
/// what another program had before it became this one); 0 where /proc does not tell.
std::int64_t peak_memory_of_process();

}  // namespace dimred
