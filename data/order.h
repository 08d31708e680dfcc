#pragma once

#include <cstdint>

namespace dimred::data {

/// Which sample stands at a position of an epoch: a pure function of (seed, epoch, position), the
/// same for any number of ranks, threads or restarts. `shuffled` false: position itself.
struct Order {
  std::uint64_t seed = 0;
  std::int64_t size = 0;
  bool shuffled = true;
  /// Index in [0, size). Throws std::invalid_argument unless 0 <= position < size and epoch >= 0.
  std::int64_t at(std::int64_t epoch, std::int64_t position) const;
};

}  // namespace dimred::data
