#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/network.h"

namespace dimred::engine {

/// A network with dropout and BatchNorm, to see that a trial is the gradient's own function.
struct DropoutNet final : models::Network {
  DropoutNet() {
    conv = register_module("conv", torch::nn::Conv2d(1, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    fc = register_module("fc", torch::nn::Linear(8 * 26 * 26, 10));
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc(dropout(torch::relu(norm(conv(x)))).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear fc{nullptr};
};

}  // namespace dimred::engine
