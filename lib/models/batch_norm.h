#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>

namespace dimred::models {

/// Sums a float64 vector over ranks, in place.
using SumOverRanks = std::function<void(torch::Tensor&)>;

/// A layer's parameters and running statistics; each may be undefined.
struct BatchNormTensors {
  torch::Tensor weight, bias, running_mean, running_var;  // [C]
  torch::Tensor counter;                                  // num_batches_tracked
};

/// Normalises [B, C, ...] in train mode by the statistics of all ranks' batches (this rank's may be
/// empty); running statistics move by `momentum` (unset: 1 / counter) towards them.
torch::Tensor global_batch_norm(const torch::Tensor& input,
                                const BatchNormTensors& layer,
                                std::optional<double> momentum,
                                double eps,
                                const SumOverRanks& sum_over_ranks);

}  // namespace dimred::models
