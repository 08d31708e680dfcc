#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// LeNet as FastNN has it (TF-Slim's nets/lenet.py): 5x5 convolutions of 32 and 64 channels, each
/// max-pooled by 2, a hidden layer of 1024 with dropout 0.5, ReLU throughout.
struct LeNet final : Network {
  LeNet(const InputShape& input, std::int64_t classes)
      : conv1(register_module("conv1", conv(input.channels, 32, 5, {.bias = true}))),
        conv2(register_module("conv2", conv(32, 64, 5, {.bias = true}))),
        fc3(register_module("fc3", nn::Linear(64 * (input.height / 4) * (input.width / 4), 1024))),
        dropout3(register_module("dropout3", nn::Dropout(0.5))),
        fc4(register_module("fc4", nn::Linear(1024, classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return fc4(dropout3(torch::relu(fc3(x.flatten(1)))));
  }

  nn::Conv2d conv1, conv2;
  nn::Linear fc3;
  nn::Dropout dropout3;
  nn::Linear fc4;
};

}  // namespace

std::shared_ptr<Network> make_lenet(const InputShape& input, std::int64_t classes) {
  return std::make_shared<LeNet>(input, classes);
}

}  // namespace dimred::models
