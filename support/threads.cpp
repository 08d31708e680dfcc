#include "support/threads.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace dimred {

std::int64_t available_threads() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace dimred
