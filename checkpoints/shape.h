#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dimred::checkpoints {

/// `unit` times the product of the extents; nullopt where one is negative, or it does not fit 63
/// bits.
inline std::optional<std::int64_t> product(const std::vector<std::int64_t>& shape,
                                           std::int64_t unit = 1) {
  for (const auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(unit, extent, &unit)) return {};
  return unit;
}

}  // namespace dimred::checkpoints
