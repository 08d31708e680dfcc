#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "support/errors.h"

namespace dimred::checkpoints {

/// Throws std::invalid_argument with the first index whose value is not finite.
inline void require_finite(std::span<const float> values,
                           std::string_view place,
                           std::string_view name) {
  const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return;
  require(false,
          place,
          "needs finite values, received ",
          *bad,
          " in ",
          name,
          '[',
          bad - values.begin(),
          ']');
}

}  // namespace dimred::checkpoints
