#pragma once

#include <cstdint>
#include <optional>

namespace dimred::method {

/// Averages of the iterates: uniform over the steps after `from`, or exponential.
enum class AverageKind { none, uniform, ema };
struct AverageOptions {
  AverageKind kind = AverageKind::none;
  double from = 0.5;    // [0, 1): part of the run before the first iterate that counts
  double decay = 0.99;  // [0, 1): of ema, a <- decay a + (1 - decay) w
  bool warmup = false;  // of ema: update n has at most the decay (1 + n) / (10 + n), so that the
                        // average forgets its beginning; TensorFlow's num_updates
};

/// The share of the next iterate in an average of `count` iterates, a <- a + share (w - a); the
/// first is taken as it is. None: it does not count. `progress` in [0, 1] is the part of the run.
std::optional<double> share_of_next(const AverageOptions& options,
                                    std::int64_t count,
                                    double progress);

/// As curve.csv says it: mean or ema.
const char* name(AverageKind kind);

}  // namespace dimred::method
