#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"
#include "models/network.h"
#include "support/errors.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// 3x3 convolutions of each of the five stages, between which the size is halved.
std::array<std::int64_t, 5> convolutions_of(std::int64_t depth) {
  switch (depth) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw std::invalid_argument(
          formatted("[models::vgg] needs a depth of 11, 16 or 19, received {}", depth));
  }
}

nn::Sequential features_of(std::int64_t depth, std::int64_t channels, bool batch_norm) {
  constexpr std::array<std::int64_t, 5> widths = {64, 128, 256, 512, 512};
  const auto convolutions = convolutions_of(depth);
  nn::Sequential features;
  auto in = channels;
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    for (std::int64_t i = 0; i < convolutions[stage]; ++i) {
      features->push_back(nn::Conv2d(nn::Conv2dOptions(in, widths[stage], 3).padding(1)));
      if (batch_norm) features->push_back(BatchNorm2d(widths[stage]));
      features->push_back(nn::ReLU());
      in = widths[stage];
    }
    features->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
  }
  return features;
}

/// Source: Simonyan and Zisserman, ICLR 2015; names, order and initialisation of torchvision's
/// vgg.py (two hidden layers of 4096 with dropout 0.5 behind 7x7 averages).
struct Vgg final : Network {
  Vgg(std::int64_t depth, bool batch_norm, std::int64_t channels, std::int64_t classes)
      : features(register_module("features", features_of(depth, channels, batch_norm))),
        classifier(register_module("classifier",
                                   nn::Sequential(nn::Linear(512 * 7 * 7, 4096),
                                                  nn::ReLU(),
                                                  nn::Dropout(0.5),
                                                  nn::Linear(4096, 4096),
                                                  nn::ReLU(),
                                                  nn::Dropout(0.5),
                                                  nn::Linear(4096, classes)))) {
    kaiming_initialise(*this);
    normal_initialise_linear(*this, 0.01);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::adaptive_avg_pool2d(features->forward(x), {7, 7});
    return classifier->forward(x.flatten(1));
  }

  nn::Sequential features, classifier;
};

}  // namespace

std::shared_ptr<Network> make_vgg(std::int64_t depth,
                                  bool batch_norm,
                                  const InputShape& input,
                                  std::int64_t classes) {
  require_size(input, 32, "models::vgg");
  return std::make_shared<Vgg>(depth, batch_norm, input.channels, classes);
}

}  // namespace dimred::models
