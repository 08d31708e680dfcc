#include "models/initialization.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "models/batch_norm_layer.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

/// By the inverse of the distribution function, which draws each number once.
void truncated_normal_(torch::Tensor& weight, double deviation) {
  const torch::NoGradGuard no_grad;
  const double cut = std::erf(std::sqrt(2.0));  // of +-2 deviations, in erf's unit
  weight.uniform_(-cut, cut).erfinv_().mul_(deviation * std::sqrt(2.0));
}

}  // namespace

void initialise_as_mindspore(torch::nn::Module& network) {
  constexpr double deviation = 0.01;
  for (const auto& child : network.modules(/*include_self=*/false)) {
    if (auto* convolution = child->as<torch::nn::Conv2d>()) {
      torch::nn::init::xavier_uniform_(convolution->weight);
      if (convolution->bias.defined()) torch::nn::init::zeros_(convolution->bias);
    }
    if (auto* linear = child->as<torch::nn::Linear>()) {
      truncated_normal_(linear->weight, deviation);
      if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
    }
  }
}

void set_constants(torch::nn::Module& network, const BatchNormConstants& constants) {
  const auto& [eps, momentum] = constants;
  if (!eps && !momentum) return;
  bool found = false;
  for (const auto& child : network.modules(/*include_self=*/false)) {
    auto* layer = dynamic_cast<BatchNorm2dImpl*>(child.get());
    if (layer == nullptr) continue;
    found = true;
    if (eps) layer->options.eps(*eps);
    if (momentum) layer->options.momentum(momentum);
  }
  require(found,
          "[models] {} needs a built-in network with BatchNorm layers; a TorchScript module keeps "
          "its own constants",
          eps ? "batch_norm_eps" : "batch_norm_momentum");
}

}  // namespace dimred::models
