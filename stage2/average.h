#pragma once

#include <torch/types.h>

#include "stage2/presets.h"

namespace dimred::stage2 {

/// The mean of the iterates so far, of own columns; part of the resume state. ema starts at the
/// first iterate that counts.
struct Average {
  torch::Tensor values;    // own columns; undefined without one
  std::int64_t count = 0;  // iterates in it
};
Average make_average(const AverageOptions& options, const torch::Tensor& own_weights);

/// Takes the iterate in once `progress` has passed options.from. Cost: one pass over own columns.
void add(Average& average,
         const AverageOptions& options,
         const torch::Tensor& own_weights,
         double progress);

/// As curve.csv says it: mean or ema.
const char* name(AverageKind kind);

}  // namespace dimred::stage2
