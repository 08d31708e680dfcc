#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <string>
#include <vector>

#include "models/batch_norm_layer.h"

namespace dimred::models {

struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  bool bias = false;
};

/// A Sequential that may stand in another one.
struct StackImpl : torch::nn::SequentialImpl {
  using torch::nn::SequentialImpl::SequentialImpl;
  torch::Tensor forward(const torch::Tensor& x) { return torch::nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Stack);

/// kernel x kernel, padded so that stride 1 keeps the size.
torch::nn::Conv2d conv(std::int64_t in,
                       std::int64_t out,
                       std::int64_t kernel,
                       const ConvOptions& options = {});

/// The 7x7 convolution with stride 2 to 64 channels that residual networks of photographs begin
/// with.
torch::nn::Conv2d photograph_stem(std::int64_t channels);

/// One convolution of a block.
struct BlockConv {
  std::int64_t out, kernel, stride = 1;
};

/// conv1, bn1, conv2, bn2, ...: convolutions with BatchNorm behind each and ReLU between them.
class ConvChain : public torch::nn::Module {
 public:
  ConvChain(std::int64_t in, const std::vector<BlockConv>& layers);

 protected:
  torch::Tensor run(torch::Tensor x);

 private:
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<BatchNorm2d> norms_;
};

struct PreActivation {
  bool bias = false;                    // of the convolutions
  bool activated = false;               // a projection sees the first ReLU's output, else the input
  std::string shortcut = "downsample";  // the projection's name
};

/// bn1, conv1, bn2, conv2, ...: BatchNorm and ReLU before each convolution; the input is added,
/// projected by 1x1 where the shape changes. Source: He et al., ECCV 2016.
class PreBlock final : public torch::nn::Module {
 public:
  PreBlock(std::int64_t in, const std::vector<BlockConv>& layers, const PreActivation& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  PreActivation options_;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<BatchNorm2d> norms_;
  torch::nn::Sequential projection_ = nullptr;
};

using Stages = std::vector<torch::nn::Sequential>;

/// layer1, layer2, ... of the given numbers of blocks, each layer twice as wide as the one before;
/// all but the first halve the size. make(in, width, stride) gives a block of `expansion` width
/// channels; the first block has `in`, which becomes the last one's.
template <class Make>
Stages add_stages(torch::nn::Module& network,
                  const std::vector<std::int64_t>& blocks,
                  std::int64_t width,
                  std::int64_t expansion,
                  std::int64_t& in,
                  const Make& make) {
  Stages stages;
  for (std::size_t i = 0; i < blocks.size(); ++i, width *= 2) {
    torch::nn::Sequential stage;
    for (std::int64_t block = 0; block < blocks[i]; ++block) {
      stage->push_back(make(in, width, i > 0 && block == 0 ? 2 : 1));
      in = expansion * width;
    }
    stages.push_back(network.register_module("layer" + std::to_string(i + 1), stage));
  }
  return stages;
}

torch::Tensor run(const Stages& stages, torch::Tensor x);

/// Kaiming's normal initialisation (fan out, ReLU) of every convolution below the module, biases 0;
/// torchvision's of ResNet, VGG and MobileNet v2. Source: He et al., ICCV 2015.
void kaiming_initialise(torch::nn::Module& module);

/// Every Linear below the module: weights from N(0, deviation^2), biases 0.
void normal_initialise_linear(torch::nn::Module& module, double deviation);

}  // namespace dimred::models
