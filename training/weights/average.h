#pragma once

#include <torch/types.h>

#include <cstdint>

#include "method/average.h"

namespace dimred::training {

/// A running average of vectors (weights, running statistics); part of a resume state.
struct Average {
  torch::Tensor values;    // undefined without one
  std::int64_t count = 0;  // of the vectors in it
};

/// Undefined where the options want none.
Average make_average(const method::AverageOptions& options, const torch::Tensor& like);

/// Takes the next vector in, where it counts. Cost: one pass.
void add(Average& average,
         const method::AverageOptions& options,
         const torch::Tensor& next,
         double progress = 1);

}  // namespace dimred::training
