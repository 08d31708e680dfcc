#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// Two 3x3 convolutions with a parameter-free shortcut (option A of the paper): every second pixel,
/// new channels filled with zeros.
struct CifarBlock final : nn::Module {
  CifarBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : stride_(stride),
        new_channels_(out - in),
        conv1(register_module("conv1", conv(in, out, 3, {.stride = stride}))),
        bn1(register_module("bn1", BatchNorm2d(out))),
        conv2(register_module("conv2", conv(out, out, 3))),
        bn2(register_module("bn2", BatchNorm2d(out))) {}

  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride_ == 1 && new_channels_ == 0) return x;
    using torch::indexing::None;
    using torch::indexing::Slice;
    const auto half =
        x.index({Slice(), Slice(), Slice(None, None, stride_), Slice(None, None, stride_)});
    const auto before = new_channels_ / 2;
    return torch::constant_pad_nd(half, {0, 0, 0, 0, before, new_channels_ - before});
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    return torch::relu(y + shortcut(x));
  }

  std::int64_t stride_, new_channels_;
  nn::Conv2d conv1;
  BatchNorm2d bn1;
  nn::Conv2d conv2;
  BatchNorm2d bn2;
};

nn::Sequential stage(std::int64_t blocks, std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential blocks_of_stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    blocks_of_stage->push_back(
        std::make_shared<CifarBlock>(i == 0 ? in : out, out, i == 0 ? stride : 1));
  }
  return blocks_of_stage;
}

/// ResNet for small images: depth = 6 n + 2, three stages of n blocks with 16, 32, 64 channels.
/// Source: He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2.
struct ResNetCifar final : Network {
  ResNetCifar(std::int64_t depth, const InputShape& input, std::int64_t classes)
      : conv1(register_module("conv1", conv(input.channels, 16, 3))),
        bn1(register_module("bn1", BatchNorm2d(16))),
        layer1(register_module("layer1", stage((depth - 2) / 6, 16, 16, 1))),
        layer2(register_module("layer2", stage((depth - 2) / 6, 16, 32, 2))),
        layer3(register_module("layer3", stage((depth - 2) / 6, 32, 64, 2))),
        fc(register_module("fc", nn::Linear(64, classes))) {
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    x = layer3->forward(layer2->forward(layer1->forward(x)));
    return fc(x.mean({2, 3}));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3;
  nn::Linear fc;
};

}  // namespace

std::shared_ptr<Network> make_resnet_cifar(std::int64_t depth,
                                           const InputShape& input,
                                           std::int64_t classes) {
  require_size(input, 4, "models::resnet_cifar");
  return std::make_shared<ResNetCifar>(depth, input, classes);
}

}  // namespace dimred::models
