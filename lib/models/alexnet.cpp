#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

nn::MaxPool2d pool() { return nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2)); }

/// The one-tower AlexNet. Source: Krizhevsky, arXiv 1404.5997; names, order and (torch's default)
/// initialisation of torchvision's alexnet.py.
struct AlexNet final : Network {
  AlexNet(std::int64_t channels, std::int64_t classes)
      : features(register_module(
            "features",
            nn::Sequential(nn::Conv2d(nn::Conv2dOptions(channels, 64, 11).stride(4).padding(2)),
                           nn::ReLU(),
                           pool(),
                           conv(64, 192, 5, {.bias = true}),
                           nn::ReLU(),
                           pool(),
                           conv(192, 384, 3, {.bias = true}),
                           nn::ReLU(),
                           conv(384, 256, 3, {.bias = true}),
                           nn::ReLU(),
                           conv(256, 256, 3, {.bias = true}),
                           nn::ReLU(),
                           pool()))),
        classifier(register_module("classifier",
                                   nn::Sequential(nn::Dropout(0.5),
                                                  nn::Linear(256 * 6 * 6, 4096),
                                                  nn::ReLU(),
                                                  nn::Dropout(0.5),
                                                  nn::Linear(4096, 4096),
                                                  nn::ReLU(),
                                                  nn::Linear(4096, classes)))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::adaptive_avg_pool2d(features->forward(x), {6, 6});
    return classifier->forward(x.flatten(1));
  }

  nn::Sequential features, classifier;
};

}  // namespace

std::shared_ptr<Network> make_alexnet(const InputShape& input, std::int64_t classes) {
  return std::make_shared<AlexNet>(input.channels, classes);
}

}  // namespace dimred::models
