#pragma once

#include <cstdint>

#include "support/random.h"

namespace dimred::data {

/// permuted() of signed numbers, as indices and places are.
inline std::int64_t permute(std::int64_t place,
                            std::int64_t size,
                            std::uint64_t seed,
                            RandomPurpose purpose,
                            std::uint64_t epoch) {
  return static_cast<std::int64_t>(permuted(
      static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(size), seed, purpose, epoch));
}

}  // namespace dimred::data
