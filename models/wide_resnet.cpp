#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d biased(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
}

/// BatchNorm, ReLU, 3x3, twice; the second has the stride.
struct WideBlock final : nn::Module {
  WideBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : bn1(register_module("bn1", BatchNorm2d(in))),
        conv1(register_module("conv1", biased(in, width, 3, 1))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        conv2(register_module("conv2", biased(width, width, 3, stride))) {
    if (stride != 1 || in != width)
      shortcut = register_module("shortcut", nn::Sequential(biased(in, width, 1, stride)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = conv1(torch::relu(bn1(x)));
    y = conv2(torch::relu(bn2(y)));
    return y + (shortcut ? shortcut->forward(x) : x);
  }

  BatchNorm2d bn1;
  nn::Conv2d conv1;
  BatchNorm2d bn2;
  nn::Conv2d conv2;
  nn::Sequential shortcut = nullptr;
};

/// WRN-depth-widen. Source: Zagoruyko and Komodakis, BMVC 2016; names, order, initialisation and
/// the last BatchNorm's momentum of .9 of timgaripov/swa's wide_resnet.py without dropout.
struct WideResNet final : Network {
  WideResNet(std::int64_t blocks, std::int64_t widen, std::int64_t channels, std::int64_t classes)
      : conv1(register_module("conv1", biased(channels, 16, 3, 1))) {
    std::int64_t in = 16;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto width = (std::int64_t{16} << i) * widen;
      for (std::int64_t block = 0; block < blocks; ++block) {
        layers[i]->push_back(std::make_shared<WideBlock>(in, width, i > 0 && block == 0 ? 2 : 1));
        in = width;
      }
      register_module(formatted("layer{}", i + 1), layers[i]);
    }
    bn1 = register_module("bn1", BatchNorm2d(nn::BatchNorm2dOptions(in).momentum(0.9)));
    linear = register_module("linear", nn::Linear(in, classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<nn::Conv2d>()) {
        nn::init::xavier_uniform_(convolution->weight, std::sqrt(2.0));
        nn::init::zeros_(convolution->bias);
      }
    }
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = conv1(x);
    for (auto& layer : layers) x = layer->forward(x);
    return linear(torch::relu(bn1(x)).mean({2, 3}));
  }

  nn::Conv2d conv1;
  std::array<nn::Sequential, 3> layers;
  BatchNorm2d bn1 = nullptr;
  nn::Linear linear = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_wide_resnet(std::int64_t depth,
                                          std::int64_t widen,
                                          const InputShape& input,
                                          std::int64_t classes) {
  require(depth >= 10 && (depth - 4) % 6 == 0,
          "[models::wide_resnet] needs a depth of 6 n + 4, received {}",
          depth);
  require_size(input, 4, "models::wide_resnet");
  return std::make_shared<WideResNet>((depth - 4) / 6, widen, input.channels, classes);
}

}  // namespace dimred::models
