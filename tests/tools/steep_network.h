#pragma once

#include <torch/nn/modules/linear.h>

#include "models/network.h"

namespace dimred::training {

/// A network whose gradients are `factor` times what they should be, so that a loss scale overflows
/// in float32, too.
struct SteepNetwork final : models::Network {
  explicit SteepNetwork(double by) : factor(by) {
    torch::manual_seed(5);
    fc = register_module("fc", torch::nn::Linear(784, 10));
  }
  torch::Tensor forward(torch::Tensor x) override {
    auto logits = fc(x.flatten(1));
    if (logits.requires_grad())
      logits.register_hook([by = factor](const torch::Tensor& g) { return g * by; });
    return logits;
  }
  torch::nn::Linear fc{nullptr};
  double factor;
};

}  // namespace dimred::training
