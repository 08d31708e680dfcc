#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace dimred {

/// That this process has asked its files for so far (/proc/self/io).
inline std::int64_t bytes_read_so_far() {
  std::ifstream in("/proc/self/io");
  std::string word;
  std::int64_t bytes = 0;
  in >> word >> bytes;  // rchar
  return bytes;
}

}  // namespace dimred
