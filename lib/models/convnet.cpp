#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// The ConvNet of the Fashion-MNIST multi-GPU article: three 3x3 convolutions without padding
/// (32, 64, 64 channels), 2x2 max-pools after the first two, dense 64, dense classes.
/// Source: kashif/tf-keras-tutorial, notebook 7 (its sigmoid output left out: logits).
struct ConvNet final : Network {
  ConvNet(const InputShape& input, std::int64_t classes)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(input.channels, 32, 3)))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(32, 64, 3)))),
        conv3(register_module("conv3", nn::Conv2d(nn::Conv2dOptions(64, 64, 3)))),
        fc1(register_module("fc1",
                            nn::Linear(64 * extent(input.height) * extent(input.width), 64))),
        fc2(register_module("fc2", nn::Linear(64, classes))) {}

  /// 28 -> 26 -> 13 -> 11 -> 5 -> 3
  static std::int64_t extent(std::int64_t pixels) { return ((pixels - 2) / 2 - 2) / 2 - 2; }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(conv3(x));
    x = torch::relu(fc1(x.flatten(1)));
    return fc2(x);
  }

  nn::Conv2d conv1, conv2, conv3;
  nn::Linear fc1, fc2;
};

}  // namespace

std::shared_ptr<Network> make_convnet(const InputShape& input, std::int64_t classes) {
  return std::make_shared<ConvNet>(input, classes);
}

}  // namespace dimred::models
