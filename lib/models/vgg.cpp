#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <array>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// 3x3 convolutions, the given number in each of five stages, between which the size is halved.
nn::Sequential features_of(const std::vector<std::int64_t>& convolutions,
                           std::int64_t channels,
                           bool batch_norm) {
  constexpr std::array<std::int64_t, 5> widths = {64, 128, 256, 512, 512};
  nn::Sequential features;
  auto in = channels;
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    for (std::int64_t i = 0; i < convolutions[stage]; ++i) {
      features->push_back(conv(in, widths[stage], 3, {.bias = true}));
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
  Vgg(nn::Sequential convolutions, std::int64_t classes)
      : features(register_module("features", std::move(convolutions))),
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

/// Keras's VGG16 without its top, behind which Flatten and one Dense layer stand; names of
/// torchvision's.
struct FlattenedVgg final : Network {
  FlattenedVgg(nn::Sequential convolutions, std::int64_t values, std::int64_t classes)
      : features(register_module("features", std::move(convolutions))),
        fc(register_module("fc", nn::Linear(values, classes))) {
    kaiming_initialise(*this);
    normal_initialise_linear(*this, 0.01);
  }

  torch::Tensor forward(torch::Tensor x) override {
    return fc->forward(features->forward(x).flatten(1));
  }

  nn::Sequential features;
  nn::Linear fc;
};

}  // namespace

std::shared_ptr<Network> make_vgg16_flatten(const InputShape& input, std::int64_t classes) {
  constexpr std::int64_t halves = 32, channels = 512;  // of five stages
  const auto values = channels * (input.height / halves) * (input.width / halves);
  return std::make_shared<FlattenedVgg>(
      features_of({2, 2, 3, 3, 3}, input.channels, /*batch_norm=*/false), values, classes);
}

std::shared_ptr<Network> make_vgg(const std::vector<std::int64_t>& convolutions,
                                  bool batch_norm,
                                  const InputShape& input,
                                  std::int64_t classes) {
  return std::make_shared<Vgg>(features_of(convolutions, input.channels, batch_norm), classes);
}

}  // namespace dimred::models
