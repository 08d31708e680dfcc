#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "models/inception_blocks.h"
#include "models/network.h"

namespace dimred::models {
namespace {

namespace nn = torch::nn;

/// 35 x 35: 1x1 | 5x5 | two 3x3 | pooled.
struct MixedA final : Branches {
  MixedA(std::int64_t in, std::int64_t pool_features)
      : one(block("branch1x1", in, 64, one_by_one)),
        five{block("branch5x5_1", in, 48, one_by_one), block("branch5x5_2", 48, 64, same(5))},
        three{block("branch3x3dbl_1", in, 64, one_by_one),
              block("branch3x3dbl_2", 64, 96, same(3)),
              block("branch3x3dbl_3", 96, 96, same(3))},
        pool(block("branch_pool", in, pool_features, one_by_one)) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({one(x), run(five, x), run(three, x), pool(mean_3x3(x, true))}, 1);
  }

  ConvBlock one;
  Chain five, three;
  ConvBlock pool;
};

/// 35 x 35 to 17 x 17.
struct MixedB final : Branches {
  explicit MixedB(std::int64_t in)
      : three(block("branch3x3", in, 384, valid(3, 2))),
        twice{block("branch3x3dbl_1", in, 64, one_by_one),
              block("branch3x3dbl_2", 64, 96, same(3)),
              block("branch3x3dbl_3", 96, 96, valid(3, 2))} {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({three(x), run(twice, x), max_3x3(x)}, 1);
  }

  ConvBlock three;
  Chain twice;
};

/// 17 x 17: 1x1 | 7x7 in two steps | in four | pooled.
struct MixedC final : Branches {
  MixedC(std::int64_t in, std::int64_t c7)
      : one(block("branch1x1", in, 192, one_by_one)),
        seven{block("branch7x7_1", in, c7, one_by_one),
              block("branch7x7_2", c7, c7, same(1, 7)),
              block("branch7x7_3", c7, 192, same(7, 1))},
        twice{block("branch7x7dbl_1", in, c7, one_by_one),
              block("branch7x7dbl_2", c7, c7, same(7, 1)),
              block("branch7x7dbl_3", c7, c7, same(1, 7)),
              block("branch7x7dbl_4", c7, c7, same(7, 1)),
              block("branch7x7dbl_5", c7, 192, same(1, 7))},
        pool(block("branch_pool", in, 192, one_by_one)) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({one(x), run(seven, x), run(twice, x), pool(mean_3x3(x, true))}, 1);
  }

  ConvBlock one;
  Chain seven, twice;
  ConvBlock pool;
};

/// 17 x 17 to 8 x 8.
struct MixedD final : Branches {
  explicit MixedD(std::int64_t in)
      : three{block("branch3x3_1", in, 192, one_by_one),
              block("branch3x3_2", 192, 320, valid(3, 2))},
        seven{block("branch7x7x3_1", in, 192, one_by_one),
              block("branch7x7x3_2", 192, 192, same(1, 7)),
              block("branch7x7x3_3", 192, 192, same(7, 1)),
              block("branch7x7x3_4", 192, 192, valid(3, 2))} {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({run(three, x), run(seven, x), max_3x3(x)}, 1);
  }

  Chain three, seven;
};

/// 8 x 8: 1x1 | 3x3 split into 1x3 and 3x1 | the same behind a 3x3 | pooled.
struct MixedE final : Branches {
  explicit MixedE(std::int64_t in)
      : one(block("branch1x1", in, 320, one_by_one)),
        three(block("branch3x3_1", in, 384, one_by_one)),
        three_wide(block("branch3x3_2a", 384, 384, same(1, 3))),
        three_high(block("branch3x3_2b", 384, 384, same(3, 1))),
        twice{block("branch3x3dbl_1", in, 448, one_by_one),
              block("branch3x3dbl_2", 448, 384, same(3))},
        twice_wide(block("branch3x3dbl_3a", 384, 384, same(1, 3))),
        twice_high(block("branch3x3dbl_3b", 384, 384, same(3, 1))),
        pool(block("branch_pool", in, 192, one_by_one)) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const auto a = three(x);
    const auto b = run(twice, x);
    return torch::cat({one(x),
                       three_wide(a),
                       three_high(a),
                       twice_wide(b),
                       twice_high(b),
                       pool(mean_3x3(x, true))},
                      1);
  }

  ConvBlock one, three, three_wide, three_high;
  Chain twice;
  ConvBlock twice_wide, twice_high, pool;
};

/// The second classifier on the 17 x 17 maps, of the training loss alone.
struct Auxiliary final : Branches {
  Auxiliary(std::int64_t in, std::int64_t classes)
      : convolutions{block("conv0", in, 128, one_by_one), block("conv1", 128, 768, valid(5))},
        fc(register_module("fc", nn::Linear(768, classes))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return fc(run(convolutions, torch::avg_pool2d(x, 5, /*stride=*/3)).mean({2, 3}));
  }

  Chain convolutions;
  nn::Linear fc;
};

/// Source: Szegedy et al., CVPR 2016; names, order and initialisation of torchvision's
/// inception.py. The auxiliary loss has weight .4, as in MLPerf's and torchvision's recipes.
struct InceptionV3 final : Network {
  InceptionV3(std::int64_t channels, std::int64_t classes) {
    const auto stem =
        [this](const std::string& name, std::int64_t in, std::int64_t out, const Window& window) {
          return register_module(name, ConvBlock(in, out, window));
        };
    const auto mixed = [this](const std::string& name, auto module) {
      return register_module(name, module);
    };
    before_pool = {stem("Conv2d_1a_3x3", channels, 32, valid(3, 2)),
                   stem("Conv2d_2a_3x3", 32, 32, valid(3)),
                   stem("Conv2d_2b_3x3", 32, 64, same(3))};
    behind_pool = {stem("Conv2d_3b_1x1", 64, 80, one_by_one),
                   stem("Conv2d_4a_3x3", 80, 192, valid(3))};
    a = {mixed("Mixed_5b", std::make_shared<MixedA>(192, 32)),
         mixed("Mixed_5c", std::make_shared<MixedA>(256, 64)),
         mixed("Mixed_5d", std::make_shared<MixedA>(288, 64))};
    b = mixed("Mixed_6a", std::make_shared<MixedB>(288));
    c = {mixed("Mixed_6b", std::make_shared<MixedC>(768, 128)),
         mixed("Mixed_6c", std::make_shared<MixedC>(768, 160)),
         mixed("Mixed_6d", std::make_shared<MixedC>(768, 160)),
         mixed("Mixed_6e", std::make_shared<MixedC>(768, 192))};
    auxiliary = mixed("AuxLogits", std::make_shared<Auxiliary>(768, classes));
    d = mixed("Mixed_7a", std::make_shared<MixedD>(768));
    e = {mixed("Mixed_7b", std::make_shared<MixedE>(1280)),
         mixed("Mixed_7c", std::make_shared<MixedE>(2048))};
    dropout = register_module("dropout", nn::Dropout(0.5));
    fc = register_module("fc", nn::Linear(2048, classes));
    normal_initialise(*this, 0.1);
    nn::init::normal_(auxiliary->fc->weight, 0, 0.001);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = max_3x3(run(before_pool, x));
    x = max_3x3(run(behind_pool, x));
    for (auto& module : a) x = module->forward(x);
    x = b->forward(x);
    for (auto& module : c) x = module->forward(x);
    auxiliary_logits = is_training() ? auxiliary->forward(x) : torch::Tensor();
    x = d->forward(x);
    for (auto& module : e) x = module->forward(x);
    return fc(dropout(x.mean({2, 3})));
  }

  Chain before_pool, behind_pool;
  std::vector<std::shared_ptr<MixedA>> a;
  std::shared_ptr<MixedB> b;
  std::vector<std::shared_ptr<MixedC>> c;
  std::shared_ptr<Auxiliary> auxiliary;
  std::shared_ptr<MixedD> d;
  std::vector<std::shared_ptr<MixedE>> e;
  nn::Dropout dropout = nullptr;
  nn::Linear fc = nullptr;
};

}  // namespace

std::shared_ptr<Network> make_inception_v3(const InputShape& input, std::int64_t classes) {
  require_size(input, 299, "models::inception_v3");  // the auxiliary classifier pools 17x17 maps
  return std::make_shared<InceptionV3>(input.channels, classes);
}

}  // namespace dimred::models
