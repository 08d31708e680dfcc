#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <array>

#include "models/layers.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// Convolution, BatchNorm, ReLU6.
Stack conv_block(std::int64_t in,
                 std::int64_t out,
                 std::int64_t kernel,
                 const ConvOptions& options = {}) {
  return Stack(conv(in, out, kernel, options), BatchNorm2d(out), nn::ReLU6());
}

/// Expand by 1x1, filter each channel by 3x3, project by 1x1 without an activation; the input is
/// added where shapes allow.
struct InvertedResidual final : nn::Module {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : adds_input(stride == 1 && in == out) {
    const auto hidden = expansion * in;
    if (expansion != 1) layers->push_back(conv_block(in, hidden, 1));
    layers->push_back(conv_block(hidden, hidden, 3, {.stride = stride, .groups = hidden}));
    layers->push_back(conv(hidden, out, 1));
    layers->push_back(BatchNorm2d(out));
    register_module("conv", layers);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = layers->forward(x);
    return adds_input ? x + y : y;
  }

  bool adds_input;
  nn::Sequential layers;
};

/// Source: Sandler et al., CVPR 2018, table 2; names, order and initialisation of torchvision's
/// mobilenetv2.py (width 1, dropout 0.2).
struct MobileNetV2 final : Network {
  MobileNetV2(std::int64_t channels, std::int64_t classes) {
    struct Stage {
      std::int64_t expansion, width, blocks, stride;
    };
    constexpr std::array<Stage, 7> stages = {{{1, 16, 1, 1},
                                              {6, 24, 2, 2},
                                              {6, 32, 3, 2},
                                              {6, 64, 4, 2},
                                              {6, 96, 3, 1},
                                              {6, 160, 3, 2},
                                              {6, 320, 1, 1}}};
    features->push_back(conv_block(channels, 32, 3, {.stride = 2}));
    std::int64_t in = 32;
    for (const auto& stage : stages) {
      for (std::int64_t block = 0; block < stage.blocks; ++block) {
        features->push_back(std::make_shared<InvertedResidual>(
            in, stage.width, block == 0 ? stage.stride : 1, stage.expansion));
        in = stage.width;
      }
    }
    features->push_back(conv_block(in, 1280, 1));
    register_module("features", features);
    classifier =
        register_module("classifier", nn::Sequential(nn::Dropout(0.2), nn::Linear(1280, classes)));
    kaiming_initialise(*this);
    normal_initialise_linear(*this, 0.01);
  }

  torch::Tensor forward(torch::Tensor x) override {
    return classifier->forward(features->forward(x).mean({2, 3}));
  }

  nn::Sequential features, classifier;
};

}  // namespace

std::shared_ptr<Network> make_mobilenet_v2(const InputShape& input, std::int64_t classes) {
  return std::make_shared<MobileNetV2>(input.channels, classes);
}

}  // namespace dimred::models
