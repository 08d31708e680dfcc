#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t bottleneck_expansion = 4;

/// 1x1 with a stride where the block's shape changes, else nothing.
nn::Sequential projection(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return nullptr;
  return nn::Sequential(conv(in, out, 1, {.stride = stride}), BatchNorm2d(out));
}

/// Two 3x3 convolutions.
struct BasicBlock final : nn::Module {
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", conv(in, width, 3, {.stride = stride}))),
        bn1(register_module("bn1", BatchNorm2d(width))),
        conv2(register_module("conv2", conv(width, width, 3))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        downsample(projection(in, width, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    return torch::relu(y + (downsample ? downsample->forward(x) : x));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  nn::Conv2d conv2;
  BatchNorm2d bn2;
  nn::Sequential downsample;
};

/// 1x1, 3x3 (which has the stride: version 1.5), 1x1 to four times the width.
struct Bottleneck final : nn::Module {
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", conv(in, width, 1))),
        bn1(register_module("bn1", BatchNorm2d(width))),
        conv2(register_module("conv2", conv(width, width, 3, {.stride = stride}))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        conv3(register_module("conv3", conv(width, bottleneck_expansion * width, 1))),
        bn3(register_module("bn3", BatchNorm2d(bottleneck_expansion * width))),
        downsample(projection(in, bottleneck_expansion * width, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(bn1(conv1(x)));
    y = torch::relu(bn2(conv2(y)));
    y = bn3(conv3(y));
    return torch::relu(y + (downsample ? downsample->forward(x) : x));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  nn::Conv2d conv2;
  BatchNorm2d bn2;
  nn::Conv2d conv3;
  BatchNorm2d bn3;
  nn::Sequential downsample;
};

/// Blocks of each of the four stages; bottlenecks from depth 50 on.
struct Shape {
  std::array<std::int64_t, 4> blocks;
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
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto width = std::int64_t{64} << i;
      for (std::int64_t block = 0; block < shape.blocks[i]; ++block) {
        const std::int64_t stride = i > 0 && block == 0 ? 2 : 1;
        if (shape.bottleneck) {
          layers[i]->push_back(std::make_shared<Bottleneck>(in, width, stride));
        } else {
          layers[i]->push_back(std::make_shared<BasicBlock>(in, width, stride));
        }
        in = shape.bottleneck ? bottleneck_expansion * width : width;
      }
      register_module(formatted("layer{}", i + 1), layers[i]);
    }
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
    for (auto& layer : layers) x = layer->forward(x);
    return fc(x.mean({2, 3}));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  std::array<nn::Sequential, 4> layers;
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
