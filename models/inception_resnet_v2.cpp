#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "models/inception_blocks.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// Branches 0, 1, ... of convolutions: a single one is registered as it is, several as a sequence,
/// behind `first` modules without weights.
class Parallel : public nn::Module {
 protected:
  struct Layer {
    std::int64_t in, out;
    Window window;
  };

  void branch(const std::vector<Layer>& layers, const nn::AnyModule& before = {}) {
    nn::Sequential sequence;
    if (!before.is_empty()) sequence->push_back(before);
    for (const auto& layer : layers)
      sequence->push_back(ConvBlock(layer.in, layer.out, layer.window));
    const auto name = "branch" + std::string(1, static_cast<char>('0' + branches_.size()));
    if (sequence->size() == 1) {
      register_module(name, sequence->ptr(0));
    } else {
      register_module(name, sequence);
    }
    branches_.push_back(sequence);
  }

  torch::Tensor joined(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (auto& sequence : branches_) parts.push_back(sequence->forward(x));
    return torch::cat(parts, 1);
  }

 private:
  std::vector<nn::Sequential> branches_;
};

struct Mixed5b final : Parallel {
  Mixed5b() {
    branch({{192, 96, one_by_one}});
    branch({{192, 48, one_by_one}, {48, 64, same(5)}});
    branch({{192, 64, one_by_one}, {64, 96, same(3)}, {96, 96, same(3)}});
    branch({{192, 64, one_by_one}},
           nn::AnyModule(nn::AvgPool2d(
               nn::AvgPool2dOptions(3).stride(1).padding(1).count_include_pad(false))));
  }
  torch::Tensor forward(const torch::Tensor& x) { return joined(x); }
};

struct Mixed6a final : Parallel {
  Mixed6a() {
    branch({{320, 384, valid(3, 2)}});
    branch({{320, 256, one_by_one}, {256, 256, same(3)}, {256, 384, valid(3, 2)}});
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::cat({joined(x), max_3x3(x)}, 1); }
};

struct Mixed7a final : Parallel {
  Mixed7a() {
    branch({{1088, 256, one_by_one}, {256, 384, valid(3, 2)}});
    branch({{1088, 256, one_by_one}, {256, 288, valid(3, 2)}});
    branch({{1088, 256, one_by_one}, {256, 288, same(3)}, {288, 320, valid(3, 2)}});
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::cat({joined(x), max_3x3(x)}, 1); }
};

/// x + scale * (a 1x1 convolution with bias of the joined branches), then ReLU unless the last.
class Residual : public Parallel {
 public:
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = x + scale_ * conv2d_(joined(x));
    return relu_ ? torch::relu(y) : y;
  }

 protected:
  Residual(double scale, bool relu) : scale_(scale), relu_(relu) {}
  void project(std::int64_t in, std::int64_t out) {
    conv2d_ = register_module("conv2d", nn::Conv2d(nn::Conv2dOptions(in, out, 1)));
  }

 private:
  double scale_;
  bool relu_;
  nn::Conv2d conv2d_ = nullptr;
};

struct Block35 final : Residual {
  Block35() : Residual(0.17, true) {
    branch({{320, 32, one_by_one}});
    branch({{320, 32, one_by_one}, {32, 32, same(3)}});
    branch({{320, 32, one_by_one}, {32, 48, same(3)}, {48, 64, same(3)}});
    project(128, 320);
  }
};

struct Block17 final : Residual {
  Block17() : Residual(0.10, true) {
    branch({{1088, 192, one_by_one}});
    branch({{1088, 128, one_by_one}, {128, 160, same(1, 7)}, {160, 192, same(7, 1)}});
    project(384, 1088);
  }
};

struct Block8 final : Residual {
  explicit Block8(double scale, bool relu) : Residual(scale, relu) {
    branch({{2080, 192, one_by_one}});
    branch({{2080, 192, one_by_one}, {192, 224, same(1, 3)}, {224, 256, same(3, 1)}});
    project(448, 2080);
  }
};

template <class Block, class... Arguments>
nn::Sequential repeated(std::int64_t times, Arguments... arguments) {
  nn::Sequential blocks;
  for (std::int64_t i = 0; i < times; ++i) blocks->push_back(std::make_shared<Block>(arguments...));
  return blocks;
}

/// Source: Szegedy et al., AAAI 2017; names, order and numerics of timm's inception_resnet_v2.py,
/// with the dropout of 0.2 before the classifier that FastNN's (TF-Slim's) network has.
struct InceptionResNetV2 final : Network {
  InceptionResNetV2(std::int64_t channels, std::int64_t classes)
      : conv2d_1a(stem("conv2d_1a", channels, 32, valid(3, 2))),
        conv2d_2a(stem("conv2d_2a", 32, 32, valid(3))),
        conv2d_2b(stem("conv2d_2b", 32, 64, same(3))),
        conv2d_3b(stem("conv2d_3b", 64, 80, one_by_one)),
        conv2d_4a(stem("conv2d_4a", 80, 192, valid(3))),
        mixed_5b(register_module("mixed_5b", std::make_shared<Mixed5b>())),
        repeat(register_module("repeat", repeated<Block35>(10))),
        mixed_6a(register_module("mixed_6a", std::make_shared<Mixed6a>())),
        repeat_1(register_module("repeat_1", repeated<Block17>(20))),
        mixed_7a(register_module("mixed_7a", std::make_shared<Mixed7a>())),
        repeat_2(register_module("repeat_2", repeated<Block8>(9, 0.20, true))),
        block8(register_module("block8", std::make_shared<Block8>(1.0, false))),
        conv2d_7b(stem("conv2d_7b", 2080, 1536, one_by_one)),
        dropout(register_module("dropout", nn::Dropout(0.2))),
        classif(register_module("classif", nn::Linear(1536, classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = max_3x3(conv2d_2b(conv2d_2a(conv2d_1a(x))));
    x = max_3x3(conv2d_4a(conv2d_3b(x)));
    x = repeat->forward(mixed_5b->forward(x));
    x = repeat_1->forward(mixed_6a->forward(x));
    x = block8->forward(repeat_2->forward(mixed_7a->forward(x)));
    return classif(dropout(conv2d_7b(x).mean({2, 3})));
  }

  ConvBlock stem(const std::string& name, std::int64_t in, std::int64_t out, const Window& window) {
    return register_module(name, ConvBlock(in, out, window));
  }

  ConvBlock conv2d_1a, conv2d_2a, conv2d_2b, conv2d_3b, conv2d_4a;
  std::shared_ptr<Mixed5b> mixed_5b;
  nn::Sequential repeat;
  std::shared_ptr<Mixed6a> mixed_6a;
  nn::Sequential repeat_1;
  std::shared_ptr<Mixed7a> mixed_7a;
  nn::Sequential repeat_2;
  std::shared_ptr<Block8> block8;
  ConvBlock conv2d_7b;
  nn::Dropout dropout;
  nn::Linear classif;
};

}  // namespace

std::shared_ptr<Network> make_inception_resnet_v2(const InputShape& input, std::int64_t classes) {
  require_size(input, 75, "models::inception_resnet_v2");
  return std::make_shared<InceptionResNetV2>(input.channels, classes);
}

}  // namespace dimred::models
