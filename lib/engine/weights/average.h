#pragma once

#include <torch/types.h>

#include <cstdint>

#include "method/average.h"

namespace dimred::engine {

/// A running average of vectors (weights, running statistics); part of a resume state.
struct Average {
  torch::Tensor values;    // undefined without one
  std::int64_t count = 0;  // of the vectors in it
};

/// Undefined where the options want none.
inline Average make_average(const method::AverageOptions& options, const torch::Tensor& like) {
  if (options.kind == method::AverageKind::none) return {};
  return {.values = torch::zeros_like(like.detach())};
}

/// Takes the next vector in, where it counts. Cost: one pass.
inline void add(Average& average,
                const method::AverageOptions& options,
                const torch::Tensor& next,
                double progress = 1) {
  const auto share = method::share_of_next(options, average.count, progress);
  if (!share) return;
  const torch::NoGradGuard no_grad;
  if (average.count++ == 0) {
    average.values.copy_(next);
  } else {
    average.values.lerp_(next, *share);
  }
}

/// A step of schedule_free, after SGD's own from y to `weights`: the mean x (`average`; the start
/// before the first step) takes z in, and `weights` become the next y. Cost: three passes.
inline void move_schedule_free(Average& average,
                               const method::AverageOptions& options,
                               torch::Tensor& weights) {
  constexpr double beta = method::schedule_free_beta;
  const torch::NoGradGuard no_grad;
  const auto share = *method::share_of_next(options, average.count++, 1);
  weights.sub_(average.values, beta).div_(1 - beta);  // z
  average.values.lerp_(weights, share);
  weights.lerp_(average.values, beta);
}

}  // namespace dimred::engine
