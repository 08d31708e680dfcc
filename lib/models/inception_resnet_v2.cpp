#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>

#include "models/inception_blocks.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// A convolution of a branch: channels out, window; `means` is a pooling without weights.
struct Layer {
  std::int64_t out;
  ConvWindow window;
};
constexpr Layer means{0, same(3)};
using Layers = std::vector<Layer>;

/// Branches 0, 1, ... side by side: a single layer is registered as it is, several as a sequence.
class Parallel : public nn::Module {
 protected:
  Parallel(std::int64_t in, const std::vector<Layers>& branches) {
    for (const auto& layers : branches) add(in, layers);
  }

  torch::Tensor joined(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (auto& sequence : branches_) parts.push_back(sequence->forward(x));
    return torch::cat(parts, 1);
  }

 private:
  void add(std::int64_t in, const Layers& layers) {
    nn::Sequential sequence;
    for (const auto& [out, window] : layers) {
      if (out == means.out) {
        sequence->push_back(
            nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(1).padding(1).count_include_pad(false)));
        continue;
      }
      sequence->push_back(ConvBlock(in, out, window));
      in = out;
    }
    const auto name = "branch" + std::to_string(branches_.size());
    if (layers.size() == 1) {
      register_module(name, sequence->ptr(0));
    } else {
      register_module(name, sequence);
    }
    branches_.push_back(sequence);
  }

  std::vector<nn::Sequential> branches_;
};

/// The joined branches, behind which maxima of the input, which halve the size, may come.
struct Joined final : Parallel {
  Joined(std::int64_t in, const std::vector<Layers>& branches, bool pooled)
      : Parallel(in, branches), pooled_(pooled) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return pooled_ ? torch::cat({joined(x), max_3x3(x)}, 1) : joined(x);
  }

  bool pooled_;
};

/// x + scale * (a 1x1 convolution with bias of the joined branches), then ReLU unless the last.
class Residual final : public Parallel {
 public:
  Residual(std::int64_t in, const std::vector<Layers>& branches, double scale, bool relu)
      : Parallel(in, branches), scale_(scale), relu_(relu) {
    std::int64_t width = 0;
    for (const auto& layers : branches) width += layers.back().out;
    conv2d_ = register_module("conv2d", nn::Conv2d(nn::Conv2dOptions(width, in, 1)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = x + scale_ * conv2d_(joined(x));
    return relu_ ? torch::relu(y) : y;
  }

 private:
  double scale_;
  bool relu_;
  nn::Conv2d conv2d_ = nullptr;
};

const std::vector<Layers> mixed_5b_branches{{{96, one_by_one}},
                                            {{48, one_by_one}, {64, same(5)}},
                                            {{64, one_by_one}, {96, same(3)}, {96, same(3)}},
                                            {means, {64, one_by_one}}};
const std::vector<Layers> mixed_6a_branches{
    {{384, valid(3, 2)}}, {{256, one_by_one}, {256, same(3)}, {384, valid(3, 2)}}};
const std::vector<Layers> mixed_7a_branches{
    {{256, one_by_one}, {384, valid(3, 2)}},
    {{256, one_by_one}, {288, valid(3, 2)}},
    {{256, one_by_one}, {288, same(3)}, {320, valid(3, 2)}}};
// The blocks that work on maps of 35 x 35, 17 x 17 and 8 x 8.
const std::vector<Layers> block35_branches{{{32, one_by_one}},
                                           {{32, one_by_one}, {32, same(3)}},
                                           {{32, one_by_one}, {48, same(3)}, {64, same(3)}}};
const std::vector<Layers> block17_branches{
    {{192, one_by_one}}, {{128, one_by_one}, {160, same(1, 7)}, {192, same(7, 1)}}};
const std::vector<Layers> block8_branches{
    {{192, one_by_one}}, {{192, one_by_one}, {224, same(1, 3)}, {256, same(3, 1)}}};

/// `count` residual blocks one behind the other.
nn::Sequential repeated(std::int64_t times,
                        std::int64_t in,
                        const std::vector<Layers>& branches,
                        double scale) {
  nn::Sequential blocks;
  for (std::int64_t i = 0; i < times; ++i)
    blocks->push_back(std::make_shared<Residual>(in, branches, scale, /*relu=*/true));
  return blocks;
}

/// Source: Szegedy et al., AAAI 2017; names, order and numerics of timm's inception_resnet_v2.py,
/// with the dropout of 0.2 before the classifier that FastNN's (TF-Slim's) network has, and, of
/// images that give maps of 17 x 17, its second classifier.
struct InceptionResNetV2 final : Network {
  InceptionResNetV2(std::int64_t channels, std::int64_t classes, bool has_auxiliary)
      : conv2d_1a(stem("conv2d_1a", channels, 32, valid(3, 2))),
        conv2d_2a(stem("conv2d_2a", 32, 32, valid(3))),
        conv2d_2b(stem("conv2d_2b", 32, 64, same(3))),
        conv2d_3b(stem("conv2d_3b", 64, 80, one_by_one)),
        conv2d_4a(stem("conv2d_4a", 80, 192, valid(3))),
        mixed_5b(mixed("mixed_5b", 192, mixed_5b_branches, false)),
        repeat(register_module("repeat", repeated(10, 320, block35_branches, 0.17))),
        mixed_6a(mixed("mixed_6a", 320, mixed_6a_branches, true)),
        repeat_1(register_module("repeat_1", repeated(20, 1088, block17_branches, 0.10))),
        mixed_7a(mixed("mixed_7a", 1088, mixed_7a_branches, true)),
        repeat_2(register_module("repeat_2", repeated(9, 2080, block8_branches, 0.20))),
        block8(register_module("block8",
                               std::make_shared<Residual>(2080, block8_branches, 1.0, false))),
        conv2d_7b(stem("conv2d_7b", 2080, 1536, one_by_one)),
        dropout(register_module("dropout", nn::Dropout(0.2))),
        classif(register_module("classif", nn::Linear(1536, classes))) {
    if (has_auxiliary)
      auxiliary =
          register_module("AuxLogits", std::make_shared<AuxiliaryClassifier>(1088, classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = max_3x3(conv2d_2b(conv2d_2a(conv2d_1a(x))));
    x = max_3x3(conv2d_4a(conv2d_3b(x)));
    x = repeat->forward(mixed_5b->forward(x));
    x = repeat_1->forward(mixed_6a->forward(x));
    auxiliary_logits = auxiliary && is_training() ? auxiliary->forward(x) : torch::Tensor();
    x = block8->forward(repeat_2->forward(mixed_7a->forward(x)));
    return classif(dropout(conv2d_7b(x).mean({2, 3})));
  }

  ConvBlock stem(const std::string& name,
                 std::int64_t in,
                 std::int64_t out,
                 const ConvWindow& window) {
    return register_module(name, ConvBlock(in, out, window));
  }
  std::shared_ptr<Joined> mixed(const std::string& name,
                                std::int64_t in,
                                const std::vector<Layers>& branches,
                                bool pooled) {
    return register_module(name, std::make_shared<Joined>(in, branches, pooled));
  }

  ConvBlock conv2d_1a, conv2d_2a, conv2d_2b, conv2d_3b, conv2d_4a;
  std::shared_ptr<Joined> mixed_5b;
  nn::Sequential repeat;
  std::shared_ptr<Joined> mixed_6a;
  nn::Sequential repeat_1;
  std::shared_ptr<Joined> mixed_7a;
  nn::Sequential repeat_2;
  std::shared_ptr<Residual> block8;
  ConvBlock conv2d_7b;
  nn::Dropout dropout;
  nn::Linear classif;
  std::shared_ptr<AuxiliaryClassifier> auxiliary;
};

}  // namespace

std::shared_ptr<Network> make_inception_resnet_v2(const InputShape& input, std::int64_t classes) {
  constexpr std::int64_t size = 299;
  return std::make_shared<InceptionResNetV2>(
      input.channels, classes, std::min(input.height, input.width) >= size);
}

}  // namespace dimred::models
