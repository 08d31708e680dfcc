#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t expansion = 4;

/// Where a bottleneck whose shape changes takes its shortcut from.
enum class Shortcut {
  activated,  // behind the first BatchNorm and ReLU, as the paper's ImageNet networks
  raw,        // the block's input, as the CIFAR networks of the SWA papers
};

/// BatchNorm and ReLU before each of 1x1, 3x3 (which has the stride), 1x1.
struct PreBottleneck final : nn::Module {
  PreBottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, Shortcut shortcut)
      : shortcut_(shortcut),
        bn1(register_module("bn1", BatchNorm2d(in))),
        conv1(register_module("conv1", conv(in, width, 1))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        conv2(register_module("conv2", conv(width, width, 3, {.stride = stride}))),
        bn3(register_module("bn3", BatchNorm2d(width))),
        conv3(register_module("conv3", conv(width, expansion * width, 1))) {
    if (stride != 1 || in != expansion * width) {
      downsample = register_module(
          "downsample", nn::Sequential(conv(in, expansion * width, 1, {.stride = stride})));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto active = torch::relu(bn1(x));
    auto y = conv1(active);
    y = conv2(torch::relu(bn2(y)));
    y = conv3(torch::relu(bn3(y)));
    if (!downsample) return x + y;
    return y + downsample->forward(shortcut_ == Shortcut::activated ? active : x);
  }

  Shortcut shortcut_;
  BatchNorm2d bn1;
  nn::Conv2d conv1;
  BatchNorm2d bn2;
  nn::Conv2d conv2;
  BatchNorm2d bn3;
  nn::Conv2d conv3;
  nn::Sequential downsample = nullptr;
};

/// Residual networks with pre-activation. Source: He et al., ECCV 2016.
struct ResNetV2 final : Network {
  ResNetV2(nn::Conv2d stem,
           bool pooled,
           const std::vector<std::int64_t>& blocks,
           Shortcut shortcut,
           std::int64_t classes)
      : pooled_(pooled), conv1(register_module("conv1", std::move(stem))) {
    auto in = conv1->options.out_channels();
    auto width = in;
    for (std::size_t i = 0; i < blocks.size(); ++i, width *= 2) {
      nn::Sequential layer;
      for (std::int64_t block = 0; block < blocks[i]; ++block) {
        const std::int64_t stride = i > 0 && block == 0 ? 2 : 1;
        layer->push_back(std::make_shared<PreBottleneck>(in, width, stride, shortcut));
        in = expansion * width;
      }
      layers.push_back(register_module(formatted("layer{}", i + 1), layer));
    }
    bn = register_module("bn", BatchNorm2d(in));
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = conv1(x);
    if (pooled_) x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
    for (auto& layer : layers) x = layer->forward(x);
    return fc(torch::relu(bn(x)).mean({2, 3}));
  }

  bool pooled_;
  nn::Conv2d conv1;
  std::vector<nn::Sequential> layers;
  BatchNorm2d bn = nullptr;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_resnet_v2_50(const InputShape& input, std::int64_t classes) {
  require_size(input, 32, "models::resnet_v2");
  nn::Conv2d stem(nn::Conv2dOptions(input.channels, 64, 7).stride(2).padding(3).bias(false));
  return std::make_shared<ResNetV2>(
      stem, true, std::vector<std::int64_t>{3, 4, 6, 3}, Shortcut::activated, classes);
}

std::shared_ptr<Network> make_preresnet(std::int64_t depth,
                                        const InputShape& input,
                                        std::int64_t classes) {
  require(depth >= 11 && (depth - 2) % 9 == 0,
          "[models::preresnet] needs a depth of 9 n + 2, received {}",
          depth);
  require_size(input, 4, "models::preresnet");
  const auto n = (depth - 2) / 9;
  return std::make_shared<ResNetV2>(conv(input.channels, 16, 3),
                                    false,
                                    std::vector<std::int64_t>{n, n, n},
                                    Shortcut::raw,
                                    classes);
}

}  // namespace dimred::models
