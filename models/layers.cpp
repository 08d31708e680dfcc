#include "models/layers.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

namespace dimred::models {

namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t in,
                std::int64_t out,
                std::int64_t kernel,
                const ConvOptions& options) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel)
                        .stride(options.stride)
                        .padding(kernel / 2)
                        .groups(options.groups)
                        .bias(false));
}

void kaiming_initialise(nn::Module& module) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* convolution = child->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      if (convolution->bias.defined()) nn::init::zeros_(convolution->bias);
    }
  }
}

void normal_initialise_linear(nn::Module& module, double deviation) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* linear = child->as<nn::Linear>()) {
      nn::init::normal_(linear->weight, 0, deviation);
      nn::init::zeros_(linear->bias);
    }
  }
}

}  // namespace dimred::models
