#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/text.h"

namespace dimred::checkpoints {

/// `unit` times the product of the extents; nullopt where one is negative, or it does not fit 63
/// bits.
inline std::optional<std::int64_t> product(const std::vector<std::int64_t>& shape,
                                           std::int64_t unit = 1) {
  for (const auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(unit, extent, &unit)) return {};
  return unit;
}

/// "[2, 3]".
inline std::string extents_text(const std::vector<std::int64_t>& extents) {
  const auto text = [](std::int64_t extent) { return std::to_string(extent); };
  return "[" + joined(extents, ", ", text) + "]";
}

}  // namespace dimred::checkpoints
