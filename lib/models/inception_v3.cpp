#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/inception_blocks.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// One convolution of a branch: its name in the module, channels out, window.
struct BranchStep {
  const char* name;
  std::int64_t out;
  ConvWindow window;
};

/// Convolutions one behind the other, and parallel ones that take their output.
struct Branch {
  std::vector<BranchStep> steps;
  std::vector<BranchStep> ends = {};
};

/// Parallel branches, and the pooled input: means behind which `pool_features` are filtered, or, 0,
/// maxima, which halve the size.
class Mixed final : public nn::Module {
 public:
  Mixed(std::int64_t in, const std::vector<Branch>& branches, std::int64_t pool_features) {
    for (const auto& branch : branches) {
      auto width = in;
      auto& [chain, ends] = branches_.emplace_back();
      for (const auto& step : branch.steps) {
        chain.push_back(block(width, step));
        width = step.out;
      }
      for (const auto& step : branch.ends) ends.push_back(block(width, step));
    }
    if (pool_features > 0) pool_ = block(in, {"branch_pool", pool_features, one_by_one});
  }

  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (const auto& [chain, ends] : branches_) {
      const auto y = run(chain, x);
      if (ends.empty()) parts.push_back(y);
      for (auto end : ends) parts.push_back(end(y));
    }
    parts.push_back(pool_ ? pool_(torch::avg_pool2d(x, 3, /*stride=*/1, /*padding=*/1))
                          : max_3x3(x));
    return torch::cat(parts, 1);
  }

 private:
  ConvBlock block(std::int64_t in, const BranchStep& step) {
    return register_module(step.name, ConvBlock(in, step.out, step.window));
  }

  std::vector<std::pair<Chain, Chain>> branches_;
  ConvBlock pool_ = nullptr;
};

/// 35 x 35: 1x1 | 5x5 | two 3x3 | pooled.
const std::vector<Branch> mixed_a{{{{"branch1x1", 64, one_by_one}}},
                                  {{{"branch5x5_1", 48, one_by_one}, {"branch5x5_2", 64, same(5)}}},
                                  {{{"branch3x3dbl_1", 64, one_by_one},
                                    {"branch3x3dbl_2", 96, same(3)},
                                    {"branch3x3dbl_3", 96, same(3)}}}};

/// 35 x 35 to 17 x 17.
const std::vector<Branch> mixed_b{{{{"branch3x3", 384, valid(3, 2)}}},
                                  {{{"branch3x3dbl_1", 64, one_by_one},
                                    {"branch3x3dbl_2", 96, same(3)},
                                    {"branch3x3dbl_3", 96, valid(3, 2)}}}};

/// 17 x 17: 1x1 | 7x7 in two steps | in four | pooled.
std::vector<Branch> mixed_c(std::int64_t c7) {
  return {{{{"branch1x1", 192, one_by_one}}},
          {{{"branch7x7_1", c7, one_by_one},
            {"branch7x7_2", c7, same(1, 7)},
            {"branch7x7_3", 192, same(7, 1)}}},
          {{{"branch7x7dbl_1", c7, one_by_one},
            {"branch7x7dbl_2", c7, same(7, 1)},
            {"branch7x7dbl_3", c7, same(1, 7)},
            {"branch7x7dbl_4", c7, same(7, 1)},
            {"branch7x7dbl_5", 192, same(1, 7)}}}};
}

/// 17 x 17 to 8 x 8.
const std::vector<Branch> mixed_d{
    {{{"branch3x3_1", 192, one_by_one}, {"branch3x3_2", 320, valid(3, 2)}}},
    {{{"branch7x7x3_1", 192, one_by_one},
      {"branch7x7x3_2", 192, same(1, 7)},
      {"branch7x7x3_3", 192, same(7, 1)},
      {"branch7x7x3_4", 192, valid(3, 2)}}}};

/// 8 x 8: 1x1 | 3x3 split into 1x3 and 3x1 | the same behind a 3x3 | pooled.
const std::vector<Branch> mixed_e{
    {{{"branch1x1", 320, one_by_one}}},
    {{{"branch3x3_1", 384, one_by_one}},
     {{"branch3x3_2a", 384, same(1, 3)}, {"branch3x3_2b", 384, same(3, 1)}}},
    {{{"branch3x3dbl_1", 448, one_by_one}, {"branch3x3dbl_2", 384, same(3)}},
     {{"branch3x3dbl_3a", 384, same(1, 3)}, {"branch3x3dbl_3b", 384, same(3, 1)}}}};

/// Source: Szegedy et al., CVPR 2016; names, order and initialisation of torchvision's
/// inception.py. The auxiliary loss has weight 0.4, as in MLPerf's and torchvision's recipes.
struct InceptionV3 final : Network {
  InceptionV3(std::int64_t channels, std::int64_t classes) {
    const auto stem =
        [this](
            const std::string& name, std::int64_t in, std::int64_t out, const ConvWindow& window) {
          return register_module(name, ConvBlock(in, out, window));
        };
    const auto mixed = [this](const std::string& name, const auto&... arguments) {
      return register_module(name, std::make_shared<Mixed>(arguments...));
    };
    before_pool = {stem("Conv2d_1a_3x3", channels, 32, valid(3, 2)),
                   stem("Conv2d_2a_3x3", 32, 32, valid(3)),
                   stem("Conv2d_2b_3x3", 32, 64, same(3))};
    behind_pool = {stem("Conv2d_3b_1x1", 64, 80, one_by_one),
                   stem("Conv2d_4a_3x3", 80, 192, valid(3))};
    before_auxiliary = {mixed("Mixed_5b", 192, mixed_a, 32),
                        mixed("Mixed_5c", 256, mixed_a, 64),
                        mixed("Mixed_5d", 288, mixed_a, 64),
                        mixed("Mixed_6a", 288, mixed_b, 0),
                        mixed("Mixed_6b", 768, mixed_c(128), 192),
                        mixed("Mixed_6c", 768, mixed_c(160), 192),
                        mixed("Mixed_6d", 768, mixed_c(160), 192),
                        mixed("Mixed_6e", 768, mixed_c(192), 192)};
    auxiliary = register_module("AuxLogits", std::make_shared<AuxiliaryClassifier>(768, classes));
    behind_auxiliary = {mixed("Mixed_7a", 768, mixed_d, 0),
                        mixed("Mixed_7b", 1280, mixed_e, 192),
                        mixed("Mixed_7c", 2048, mixed_e, 192)};
    dropout = register_module("dropout", nn::Dropout(0.5));
    fc = register_module("fc", nn::Linear(2048, classes));
    // Torchvision cuts the weights at +-2, twenty deviations away.
    for (auto& parameter : parameters())
      if (parameter.dim() >= 2) nn::init::normal_(parameter, 0, 0.1);
    nn::init::normal_(auxiliary->fc->weight, 0, 0.001);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = max_3x3(run(before_pool, x));
    x = max_3x3(run(behind_pool, x));
    for (auto& module : before_auxiliary) x = module->forward(x);
    auxiliary_logits = is_training() ? auxiliary->forward(x) : torch::Tensor();
    for (auto& module : behind_auxiliary) x = module->forward(x);
    return fc(dropout(x.mean({2, 3})));
  }

  Chain before_pool, behind_pool;
  std::vector<std::shared_ptr<Mixed>> before_auxiliary, behind_auxiliary;
  std::shared_ptr<AuxiliaryClassifier> auxiliary;
  nn::Dropout dropout = nullptr;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_inception_v3(const InputShape& input, std::int64_t classes) {
  return std::make_shared<InceptionV3>(input.channels, classes);
}

}  // namespace dimred::models
