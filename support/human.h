#pragma once

#include <cstdint>
#include <string>

// Numbers as people read them.
namespace dimred {

std::string count_text(std::int64_t count);          // 2,560,000
std::string bytes_text(std::int64_t bytes);          // 512 B, 32.0 MB (1 MB = 10^6 bytes)
std::string duration_text(double seconds);           // 3.2 ms, 0.42 s, 12 s, 3 min 05 s, 2 h 03 min
std::string decimal_text(double value, int digits);  // fixed: 0.3142

}  // namespace dimred
