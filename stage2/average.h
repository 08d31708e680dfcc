#pragma once

#include "method/presets.h"
#include "training/average.h"

namespace dimred::stage2 {

/// The mean of the iterates so far, of own columns. ema starts at the first iterate that counts.
using training::Average;
Average make_average(const method::AverageOptions& options, const torch::Tensor& own_weights);

/// Takes the iterate in once `progress` has passed options.from. Cost: one pass over own columns.
void add(Average& average,
         const method::AverageOptions& options,
         const torch::Tensor& own_weights,
         double progress);

/// As curve.csv says it: mean or ema.
const char* name(method::AverageKind kind);

}  // namespace dimred::stage2
