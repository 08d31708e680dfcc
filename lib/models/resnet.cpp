#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// The input is added, projected by 1x1 where the shape changes.
struct ResidualUnit final : ConvChain {
  ResidualUnit(std::int64_t in, std::int64_t stride, const std::vector<BlockConv>& layers)
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

/// A convolution, stages of blocks, a mean over the pixels and a linear layer. Source: He et al.,
/// "Deep residual learning for image recognition", CVPR 2016; names, order and initialisation of
/// torchvision's resnet.py.
struct ResNet final : Network {
  /// `make` gives a block, as add_stages() asks for it.
  template <class Make>
  ResNet(nn::Conv2d stem,
         bool pooled,
         const std::vector<std::int64_t>& blocks,
         std::int64_t expansion,
         std::int64_t classes,
         const Make& make)
      : pooled_(pooled), conv1(register_module("conv1", std::move(stem))) {
    auto in = conv1->options.out_channels();
    bn1 = register_module("bn1", BatchNorm2d(in));
    layers = add_stages(*this, blocks, in, expansion, in, make);
    fc = register_module("fc", nn::Linear(in, classes));
    kaiming_initialise(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    if (pooled_) x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
    return fc(run(layers, x).mean({2, 3}));
  }

  bool pooled_;
  nn::Conv2d conv1;
  BatchNorm2d bn1 = nullptr;
  Stages layers;
  nn::Linear fc = nullptr;
};

}  // namespace

/// For photographs, version 1.5: blocks are two 3x3 convolutions; or 1x1, 3x3 (which has the
/// stride), 1x1 to four times the width.
std::shared_ptr<Network> make_resnet(const std::vector<std::int64_t>& blocks,
                                     bool bottleneck,
                                     const InputShape& input,
                                     std::int64_t classes) {
  const auto expansion = bottleneck ? 4 : 1;
  return std::make_shared<ResNet>(
      photograph_stem(input.channels),
      /*pooled=*/true,
      blocks,
      expansion,
      classes,
      [&](std::int64_t in, std::int64_t width, std::int64_t stride) {
        using Layers = std::vector<BlockConv>;
        return std::make_shared<ResidualUnit>(
            in,
            stride,
            bottleneck ? Layers{{width, 1}, {width, 3, stride}, {expansion * width, 1}}
                       : Layers{{width, 3, stride}, {width, 3}});
      });
}

/// For small images, section 4.2: three stages of n blocks with 16, 32, 64 channels make a depth of
/// 6 n + 2.
std::shared_ptr<Network> make_resnet_cifar(std::int64_t n,
                                           const InputShape& input,
                                           std::int64_t classes) {
  return std::make_shared<ResNet>(conv(input.channels, 16, 3),
                                  /*pooled=*/false,
                                  std::vector<std::int64_t>{n, n, n},
                                  /*expansion=*/1,
                                  classes,
                                  [](std::int64_t in, std::int64_t width, std::int64_t stride) {
                                    return std::make_shared<CifarBlock>(in, width, stride);
                                  });
}

}  // namespace dimred::models
