#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "models/batch_norm_layer.h"

namespace dimred::models {

/// Of a convolution without bias: what most networks of today are made of.
struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t groups = 1;
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

/// Kaiming's normal initialisation (fan out, ReLU) of every convolution below the module, biases 0;
/// torchvision's of ResNet, VGG and MobileNet v2. Source: He et al., ICCV 2015.
void kaiming_initialise(torch::nn::Module& module);

/// Every Linear below the module: weights from N(0, deviation^2), biases 0.
void normal_initialise_linear(torch::nn::Module& module, double deviation);

}  // namespace dimred::models
