#pragma once

#include <cmath>
#include <cstdint>

namespace dimred {

/// ceil(ratio count) for ratio in (0, 1], of the decimal ratio that was meant: 7 for 0.07 of 100,
/// though their product in binary is a little more.
inline std::int64_t ceil_fraction(double ratio, std::int64_t count) {
  constexpr double below = 1 - 1e-12;
  if (ratio >= 1) return count;
  return static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(count) * below));
}

}  // namespace dimred
