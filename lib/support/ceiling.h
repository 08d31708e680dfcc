#pragma once

#include <cmath>
#include <cstdint>

// Divisions that are rounded up.
namespace dimred {

/// The parts of `part` > 0 that `value` >= 0 begins.
constexpr std::int64_t ceiling(std::int64_t value, std::int64_t part) {
  return (value + part - 1) / part;
}

/// ceil(ratio count) for ratio in (0, 1], of the decimal ratio that was meant: 7 for 0.07 of 100,
/// though their product in binary is a little more.
inline std::int64_t ceil_fraction(double ratio, std::int64_t count) {
  constexpr double below = 1 - 1e-12;
  if (ratio >= 1) return count;
  return std::ceil(ratio * count * below);
}

}  // namespace dimred
