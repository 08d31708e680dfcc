#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// Two 3x3 convolutions with a parameter-free shortcut (option A of the paper): every second pixel,
/// new channels filled with zeros.
struct CifarBlock final : ConvChain {
  CifarBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : ConvChain(in, {{out, 3, stride}, {out, 3}}), stride_(stride), new_channels_(out - in) {}

  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride_ == 1 && new_channels_ == 0) return x;
    using torch::indexing::None;
    using torch::indexing::Slice;
    const auto half =
        x.index({Slice(), Slice(), Slice(None, None, stride_), Slice(None, None, stride_)});
    const auto before = new_channels_ / 2;
    return torch::constant_pad_nd(half, {0, 0, 0, 0, before, new_channels_ - before});
  }

  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(run(x) + shortcut(x)); }

  std::int64_t stride_, new_channels_;
};

/// ResNet for small images: depth = 6 n + 2, three stages of n blocks with 16, 32, 64 channels.
/// Source: He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2.
struct ResNetCifar final : Network {
  ResNetCifar(std::int64_t depth, const InputShape& input, std::int64_t classes)
      : conv1(register_module("conv1", conv(input.channels, 16, 3))),
        bn1(register_module("bn1", BatchNorm2d(16))) {
    const auto blocks = (depth - 2) / 6;
    std::int64_t in = 16;
    layers = add_stages(*this,
                        {blocks, blocks, blocks},
                        16,
                        1,
                        in,
                        [](std::int64_t in, std::int64_t width, std::int64_t stride) {
                          return std::make_shared<CifarBlock>(in, width, stride);
                        });
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    return fc(run(layers, x).mean({2, 3}));
  }

  nn::Conv2d conv1;
  BatchNorm2d bn1;
  Stages layers;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_resnet_cifar(std::int64_t depth,
                                           const InputShape& input,
                                           std::int64_t classes) {
  require_size(input, 4, "models::resnet_cifar");
  return std::make_shared<ResNetCifar>(depth, input, classes);
}

}  // namespace dimred::models
