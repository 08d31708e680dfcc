#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t bottleneck_expansion = 4;

/// The input is added, projected by 1x1 where the shape changes.
struct Block final : ConvChain {
  Block(std::int64_t in, std::int64_t stride, const std::vector<BlockConv>& layers)
      : ConvChain(in, layers) {
    const auto out = layers.back().out;
    if (in == out && stride == 1) return;
    downsample = register_module(
        "downsample", nn::Sequential(conv(in, out, 1, {.stride = stride}), BatchNorm2d(out)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::relu(run(x) + (downsample ? downsample->forward(x) : x));
  }

  nn::Sequential downsample = nullptr;
};

/// Two 3x3 convolutions; or 1x1, 3x3 (which has the stride: version 1.5), 1x1 to four times the
/// width.
std::shared_ptr<Block> make_block(bool bottleneck,
                                  std::int64_t in,
                                  std::int64_t width,
                                  std::int64_t stride) {
  using Layers = std::vector<BlockConv>;
  return std::make_shared<Block>(
      in,
      stride,
      bottleneck ? Layers{{width, 1}, {width, 3, stride}, {bottleneck_expansion * width, 1}}
                 : Layers{{width, 3, stride}, {width, 3}});
}

/// Blocks of each of the four stages; bottlenecks from depth 50 on.
struct Shape {
  std::vector<std::int64_t> blocks;
  bool bottleneck;
};

Shape shape_of(std::int64_t depth) {
  switch (depth) {
    case 18:
      return {{2, 2, 2, 2}, false};
    case 34:
      return {{3, 4, 6, 3}, false};
    case 50:
      return {{3, 4, 6, 3}, true};
    case 101:
      return {{3, 4, 23, 3}, true};
    case 152:
      return {{3, 8, 36, 3}, true};
    default:
      throw std::invalid_argument(formatted(
          "[models::resnet] needs a depth of 18, 34, 50, 101 or 152, received {}", depth));
  }
}

/// ResNet for photographs, version 1.5: a 7x7 stem with stride 2, max-pooling, four stages.
/// Source: He et al., CVPR 2016; names, order and initialisation of torchvision's resnet.py.
struct ResNet final : Network {
  ResNet(const Shape& shape, std::int64_t channels, std::int64_t classes)
      : conv1(register_module(
            "conv1",
            nn::Conv2d(nn::Conv2dOptions(channels, 64, 7).stride(2).padding(3).bias(false)))),
        bn1(register_module("bn1", BatchNorm2d(64))) {
    std::int64_t in = 64;
    layers = add_stages(*this,
                        shape.blocks,
                        64,
                        shape.bottleneck ? bottleneck_expansion : 1,
                        in,
                        [&](std::int64_t in, std::int64_t width, std::int64_t stride) {
                          return make_block(shape.bottleneck, in, width, stride);
                        });
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
    return fc(run(layers, x).mean({2, 3}));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  Stages layers;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_resnet(std::int64_t depth,
                                     const InputShape& input,
                                     std::int64_t classes) {
  require_size(input, 32, "models::resnet");
  return std::make_shared<ResNet>(shape_of(depth), input.channels, classes);
}

}  // namespace dimred::models
