#pragma once

#include <torch/types.h>

#include <cstdint>

namespace dimred::models {

/// Which classes a step's softmax runs over: ceil(ratio C) drawn without replacement, and the
/// batch's own. A function of (seed, step) and the batch, so the same for any number of blocks.
/// Source: An et al., "Partial FC", 2021; there each rank draws from its own block.
struct ClassSampling {
  double ratio = 1;  // (0, 1]; 1: all
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

/// The sampled classes of the block [begin, begin + count) of `classes`, counted from begin,
/// sorted, int64. `labels` [N] int64 of the whole batch, also counted from begin. Cost: about a
/// microsecond a class of the block. Throws std::invalid_argument unless 0 < ratio <= 1.
torch::Tensor sampled_classes(const ClassSampling& sampling,
                              std::int64_t classes,
                              std::int64_t begin,
                              std::int64_t count,
                              const torch::Tensor& labels);

/// `labels` by their position in `sample`; -1 where a label is of another block.
torch::Tensor positions_in(const torch::Tensor& sample, const torch::Tensor& labels);

}  // namespace dimred::models
