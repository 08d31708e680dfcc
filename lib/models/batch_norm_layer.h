#pragma once

#include <torch/nn/modules/batchnorm.h>

#include "models/batch_norm.h"

// Apart from batch_norm.h, because torch's modules cost each file that includes them two seconds.
namespace dimred::models {

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
