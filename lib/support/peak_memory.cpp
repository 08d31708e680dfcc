#include "support/peak_memory.h"

#include <fstream>
#include <string>

namespace dimred {

std::int64_t peak_memory_of_process() {
  constexpr std::int64_t kilobyte = 1024;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return kilobyte * std::stoll(line.substr(6));
  return 0;
}

}  // namespace dimred
