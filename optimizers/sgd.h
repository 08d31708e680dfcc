#pragma once

#include <torch/types.h>

#include <vector>

#include "optimizers/segments.h"

namespace dimred::optimizers {

/// g <- gradient + weight_decay * w (where decay applies);  m <- momentum m + g;
/// w <- w - lr * m, or with nesterov w - lr * (g + momentum m). The first step sets m = g.
/// Source: Sutskever et al. 2013; torch.optim.SGD with dampening 0.
struct SgdOptions {
  double momentum = 0.9;       // [0, 1)
  double weight_decay = 1e-4;  // >= 0; not applied to biases and BatchNorm
  bool nesterov = false;       // needs momentum > 0
};

/// Throws std::invalid_argument("[optimizers::sgd] rule, received ...").
void validate(const SgdOptions& options);

/// One step on all columns of (weights, gradient, momentum) [memory_size] float32, in place;
/// momentum must be zero before the first step. Cost: reads w, g, m and writes w, m once (torch's
/// fused kernel).
void sgd_step(torch::Tensor& weights,
              const torch::Tensor& gradient,
              torch::Tensor& momentum,
              const std::vector<DecayRange>& ranges,
              double learning_rate,
              const SgdOptions& options);

}  // namespace dimred::optimizers
