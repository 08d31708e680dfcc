#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "support/errors.h"

namespace dimred::checkpoints {

/// Index of the first value that is not finite.
inline std::optional<std::ptrdiff_t> first_not_finite(std::span<const float> values) {
  const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return std::nullopt;
  return bad - values.begin();
}

/// Throws std::invalid_argument with the first index whose value is not finite.
inline void require_finite(std::span<const float> values,
                           std::string_view scope,
                           std::string_view name) {
  if (const auto bad = first_not_finite(values))
    refuse("[{}] needs finite values, received {} in {}[{}]", scope, values[*bad], name, *bad);
}

}  // namespace dimred::checkpoints
