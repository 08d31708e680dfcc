#pragma once

#include <cstdint>
#include <optional>

namespace dimred::method {

/// Averages of the iterates: uniform over the steps after `from`, or exponential. schedule_free
/// (Defazio et al. 2024) is the uniform mean x of iterates z whose gradients are taken between the
/// two, at y = (1 - beta) z + beta x.
enum class AverageKind { none, uniform, ema, schedule_free };

/// The published default. The step that takes y to y - r g takes z to z - r g / (1 - beta): the
/// published rate is r / (1 - beta).
constexpr double schedule_free_beta = 0.9;

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

/// True when the first iterate that counts depends on the length of the run.
bool depends_on_length(const AverageOptions& options);

/// As curve.csv says it: mean or ema; schedule_free's x is a mean.
const char* name(AverageKind kind);

}  // namespace dimred::method
