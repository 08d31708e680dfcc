#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t first_width = 16;

/// WRN-depth-widen. Source: Zagoruyko and Komodakis, BMVC 2016; names, order and the last
/// BatchNorm's momentum of 0.9 of timgaripov/swa's wide_resnet.py, whose dropout is 0. Initialised
/// by its conv_init, which that repository's training does not call.
struct WideResNet final : Network {
  WideResNet(std::int64_t blocks, std::int64_t widen, std::int64_t channels, std::int64_t classes)
      : conv1(register_module("conv1", conv(channels, first_width, 3, {.bias = true}))) {
    std::int64_t in = first_width;
    // 3x3 twice; the second has the stride.
    layers = add_stages(*this,
                        {blocks, blocks, blocks},
                        first_width * widen,
                        1,
                        in,
                        [](std::int64_t in, std::int64_t width, std::int64_t stride) {
                          return std::make_shared<PreBlock>(
                              in,
                              std::vector<BlockConv>{{width, 3}, {width, 3, stride}},
                              PreActivation{.bias = true, .shortcut = "shortcut"});
                        });
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
    return linear(torch::relu(bn1(run(layers, x))).mean({2, 3}));
  }

  nn::Conv2d conv1;
  Stages layers;
  BatchNorm2d bn1 = nullptr;
  nn::Linear linear = nullptr;
};

}  // namespace

/// Three stages of n blocks make a depth of 6 n + 4.
std::shared_ptr<Network> make_wide_resnet(std::int64_t n,
                                          std::int64_t widen,
                                          const InputShape& input,
                                          std::int64_t classes) {
  return std::make_shared<WideResNet>(n, widen, input.channels, classes);
}

}  // namespace dimred::models
