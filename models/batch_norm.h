#pragma once

#include <torch/nn/modules/batchnorm.h>

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

/// Normalises [B, C, ...] in train mode by the statistics of all ranks' batches, of which this
/// rank's may be empty; running statistics move by `momentum` (unset: 1 / counter) towards them.
torch::Tensor global_batch_norm(const torch::Tensor& input,
                                const BatchNormTensors& layer,
                                std::optional<double> momentum,
                                double eps,
                                const SumOverRanks& sum_over_ranks);

/// torch's BatchNorm2d (names, options, numerics), which in train mode can normalise by the
/// statistics of the global batch: one sum of 2C + 1 numbers over ranks in the forward pass, one of
/// 2C in the backward pass. A rank's part of the batch may then be empty.
class BatchNorm2dImpl : public torch::nn::BatchNorm2dImpl {
 public:
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;
  torch::Tensor forward(const torch::Tensor& input);

  SumOverRanks sum_over_ranks;  // empty: each rank by its own part of the batch
};
TORCH_MODULE(BatchNorm2d);

}  // namespace dimred::models
