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
                        .bias(options.bias));
}

nn::Conv2d photograph_stem(std::int64_t channels) { return conv(channels, 64, 7, {.stride = 2}); }

ConvChain::ConvChain(std::int64_t in, const std::vector<BlockConv>& layers) {
  for (const auto& [out, kernel, stride] : layers) {
    const auto number = std::to_string(norms_.size() + 1);
    convolutions_.push_back(
        register_module("conv" + number, conv(in, out, kernel, {.stride = stride})));
    norms_.push_back(register_module("bn" + number, BatchNorm2d(out)));
    in = out;
  }
}

torch::Tensor ConvChain::run(torch::Tensor x) {
  for (std::size_t i = 0; i < norms_.size(); ++i)
    x = norms_[i](convolutions_[i](i == 0 ? x : torch::relu(x)));
  return x;
}

PreBlock::PreBlock(std::int64_t in,
                   const std::vector<BlockConv>& layers,
                   const PreActivation& options)
    : options_(options) {
  auto width = in, whole_stride = std::int64_t{1};
  for (const auto& [out, kernel, stride] : layers) {
    const auto number = std::to_string(norms_.size() + 1);
    norms_.push_back(register_module("bn" + number, BatchNorm2d(width)));
    convolutions_.push_back(register_module(
        "conv" + number, conv(width, out, kernel, {.stride = stride, .bias = options.bias})));
    width = out;
    whole_stride *= stride;
  }
  if (whole_stride == 1 && in == width) return;
  projection_ = register_module(
      options.shortcut,
      nn::Sequential(conv(in, width, 1, {.stride = whole_stride, .bias = options.bias})));
}

torch::Tensor PreBlock::forward(const torch::Tensor& x) {
  const auto active = torch::relu(norms_[0](x));
  auto y = convolutions_[0](active);
  for (std::size_t i = 1; i < norms_.size(); ++i) y = convolutions_[i](torch::relu(norms_[i](y)));
  return y + (projection_ ? projection_->forward(options_.activated ? active : x) : x);
}

torch::Tensor run(const Stages& stages, torch::Tensor x) {
  for (auto stage : stages) x = stage->forward(x);
  return x;
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
