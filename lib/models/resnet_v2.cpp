#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t expansion = 4;

/// Residual networks with pre-activated bottlenecks: those of the paper's ImageNet networks take
/// a projection behind the first ReLU, those of the SWA papers' CIFAR networks from the input.
/// Source: He et al., ECCV 2016.
struct ResNetV2 final : Network {
  ResNetV2(nn::Conv2d stem,
           bool pooled,
           const std::vector<std::int64_t>& blocks,
           const PreActivation& options,
           std::int64_t classes)
      : pooled_(pooled), conv1(register_module("conv1", std::move(stem))) {
    auto in = conv1->options.out_channels();
    layers = add_stages(
        *this,
        blocks,
        in,
        expansion,
        in,
        [&](std::int64_t in, std::int64_t width, std::int64_t stride) {
          return std::make_shared<PreBlock>(
              in,
              std::vector<BlockConv>{{width, 1}, {width, 3, stride}, {expansion * width, 1}},
              options);
        });
    bn = register_module("bn", BatchNorm2d(in));
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = conv1(x);
    if (pooled_) x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
    return fc(torch::relu(bn(run(layers, x))).mean({2, 3}));
  }

  bool pooled_;
  nn::Conv2d conv1;
  Stages layers;
  BatchNorm2d bn = nullptr;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_resnet_v2_50(const InputShape& input, std::int64_t classes) {
  return std::make_shared<ResNetV2>(photograph_stem(input.channels),
                                    true,
                                    std::vector<std::int64_t>{3, 4, 6, 3},
                                    PreActivation{.activated = true},
                                    classes);
}

/// Three stages of n blocks make a depth of 9 n + 2.
std::shared_ptr<Network> make_preresnet(std::int64_t n,
                                        const InputShape& input,
                                        std::int64_t classes) {
  return std::make_shared<ResNetV2>(conv(input.channels, 16, 3),
                                    false,
                                    std::vector<std::int64_t>{n, n, n},
                                    PreActivation{},
                                    classes);
}

}  // namespace dimred::models
