#include "support/file_limit.h"

#include <sys/resource.h>

namespace dimred {

std::size_t most_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1 << 20;
  return limit.rlim_cur / 2;
}

}  // namespace dimred
