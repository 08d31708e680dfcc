#include "models/script.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/script.h>

#include <fstream>
#include <functional>

#include "models/batch_norm_layer.h"
#include "models/flat.h"
#include "models/summary.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

namespace jit = torch::jit;

constexpr InputShape input{1, 8, 8};
constexpr std::int64_t classes = 5;

/// The scripts below in C++: its numbers are eager PyTorch's.
struct EagerNet final : Network {
  EagerNet() {
    conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
    norm = register_module("norm", BatchNorm2d(4));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    fc = register_module("fc", torch::nn::Linear(4 * 36, classes));
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc(dropout(torch::relu(norm(conv(x)))).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear fc{nullptr};
};

constexpr auto usual_forward = R"(
def forward(self, images, scale: float = 1.0):
    x = torch.conv2d(images, self.conv.weight, self.conv.bias)
    if self.training:
        self.norm.num_batches_tracked.add_(1)
    x = torch.batch_norm(x, self.norm.weight, self.norm.bias, self.norm.running_mean,
                         self.norm.running_var, self.training, 0.1, 1e-05, True)
    x = torch.dropout(torch.relu(x), 0.5, self.training)
    return torch.linear(torch.flatten(x, 1), self.fc.weight, self.fc.bias) * scale + self.shift
)";

/// A TorchScript module with EagerNet's parameters, a constant buffer `shift` of zeros, and this
/// forward. `change` may alter the module before it is saved.
std::string save_module(const TemporaryFolder& folder,
                        Network& twin,
                        const std::string& forward = usual_forward,
                        const std::function<void(jit::Module&)>& change = {}) {
  jit::Module module("Net");
  for (const auto& child : twin.named_children()) {
    jit::Module layer(child.key() == "conv" ? "Conv2d" : child.key());
    for (const auto& item : child.value()->named_parameters(false))
      layer.register_parameter(
          item.key(), item.value().detach().clone().requires_grad_(true), false);
    for (const auto& item : child.value()->named_buffers(false))
      layer.register_parameter(item.key(), item.value().clone(), /*is_buffer=*/true);
    module.register_module(child.key(), layer);
  }
  module.register_parameter("shift", torch::zeros({classes}), /*is_buffer=*/true);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(forward);
  if (change) change(module);
  auto file = (folder.path() / "model.pt").string();
  module.save(file);
  return file;
}

struct Step {
  double loss = 0;
  std::vector<float> gradient, buffers;
  std::vector<std::int64_t> counters;
  bool operator==(const Step&) const = default;
};

/// Loss, gradient and buffers of one pass over fixed images in train mode.
Step train_step(Objective& objective, FlatVectors& flat, std::int64_t batch = 6) {
  torch::manual_seed(11);
  const auto images = torch::randn({batch, 1, 8, 8});
  const auto labels = torch::arange(batch, torch::kInt64) % classes;
  flat.gradient.zero_();
  torch::manual_seed(12);
  const auto result = objective.evaluate({images, labels}, Mode::train);
  (result.loss_sum / static_cast<double>(batch)).backward();
  // The script's constant comes last (Python's order: own ones first) or not at all.
  auto buffers = to_vector(flat.buffers);
  if (buffers.size() > 8) buffers.erase(buffers.begin(), buffers.begin() + classes);
  return {result.loss_sum.item<double>(),
          to_file(flat.layout, flat.gradient),
          buffers,
          to_integers(flat.counters)};
}

struct Pair {
  TemporaryFolder folder;
  std::shared_ptr<EagerNet> network = std::make_shared<EagerNet>();
  std::shared_ptr<Network> script_network;
  std::unique_ptr<Objective> eager, script;
  FlatVectors eager_flat, script_flat;

  explicit Pair(layout::MemoryFormat format = layout::MemoryFormat::contiguous,
                Precision precision = Precision::float32) {
    script_network = load_script(save_module(folder, *network), input, classes);
    eager = classifier(network, {.precision = precision});
    script = classifier(script_network, {.precision = precision});
    eager_flat = flatten(*eager, format, torch::kCPU);
    script_flat = flatten(*script, format, torch::kCPU);
  }
};

TEST(Script, NamesOrderAndWeightsAreTheModules) {
  const Pair pair;
  EXPECT_EQ(pair.script_flat.layout.hash, pair.eager_flat.layout.hash);
  EXPECT_EQ(to_file(pair.script_flat.layout, pair.script_flat.weights),
            to_file(pair.eager_flat.layout, pair.eager_flat.weights));
}

/// Exact: the graph runs the same operators as the C++ network, and draws the same dropout masks.
TEST(Script, TrainsAsEagerCodeBitForBit) {
  for (const auto format :
       {layout::MemoryFormat::contiguous, layout::MemoryFormat::channels_last}) {
    Pair pair(format);
    for (int step = 0; step < 4; ++step) {
      ASSERT_EQ(train_step(*pair.script, pair.script_flat),
                train_step(*pair.eager, pair.eager_flat));
      pair.script_flat.weights.sub_(pair.script_flat.gradient, 0.1);
      pair.eager_flat.weights.sub_(pair.eager_flat.gradient, 0.1);
    }
    const auto images = torch::randn({3, 1, 8, 8});
    EXPECT_TRUE(torch::equal(pair.script->logits(images, Mode::evaluate),
                             pair.eager->logits(images, Mode::evaluate)));
  }
}

TEST(Script, AutocastIsTheDispatchersAsInEagerCode) {
  if (!has_native_bfloat16(torch::kCPU)) GTEST_SKIP() << "no native bfloat16";
  Pair pair(layout::MemoryFormat::channels_last, Precision::bfloat16);
  const auto script = train_step(*pair.script, pair.script_flat);
  EXPECT_EQ(script, train_step(*pair.eager, pair.eager_flat));
  Pair full;
  EXPECT_NE(script.loss, train_step(*full.script, full.script_flat).loss);
}

TEST(Script, DropoutFollowsTheGenerator) {
  Pair pair;
  const auto images = torch::randn({3, 1, 8, 8});
  const auto drawn = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return pair.script->logits(images, Mode::train).detach();
  };
  EXPECT_TRUE(torch::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(torch::equal(drawn(1), drawn(2)));
}

TEST(Script, RecalibrationTakesCumulativeMeans) {
  Pair pair;
  EXPECT_EQ(pair.script->batchnorm_layers(), 1);
  for (auto* objective : {pair.script.get(), pair.eager.get()}) {
    objective->reset_running_statistics();
    objective->set_cumulative_batchnorm(true);
  }
  for (int pass = 0; pass < 3; ++pass)
    EXPECT_EQ(train_step(*pair.script, pair.script_flat), train_step(*pair.eager, pair.eager_flat));
  for (auto* objective : {pair.script.get(), pair.eager.get()})
    objective->set_cumulative_batchnorm(false);
  EXPECT_EQ(train_step(*pair.script, pair.script_flat), train_step(*pair.eager, pair.eager_flat));
}

TEST(Script, NormalisesByTheStatisticsOfAllRanks) {
  Pair pair;
  const auto alone = train_step(*pair.script, pair.script_flat);
  Pair together;
  // Another rank with the same sums but three times the values: another mean than ours.
  const auto sum = [](torch::Tensor& sums) {
    sums.mul_(4);
    sums[0].add_(1);
  };
  together.script->synchronize_batchnorm(sum);
  together.eager->synchronize_batchnorm(sum);
  const auto script = train_step(*together.script, together.script_flat);
  EXPECT_EQ(script, train_step(*together.eager, together.eager_flat));
  EXPECT_NE(script.loss, alone.loss);
}

TEST(Script, ConstantsAreHandlesOnBuffersThatTrainingLeavesAlone) {
  Pair pair;
  const auto constants = pair.script->constants();
  ASSERT_EQ(constants.size(), 1);
  pair.script_flat.buffers.fill_(3);  // as loaded weights do
  pair.script->reset_running_statistics();
  EXPECT_TRUE(torch::equal(constants[0], torch::full_like(constants[0], 3)));
  EXPECT_EQ(pair.script_flat.buffers.sum().item<float>(), 3 * constants[0].numel());
}

TEST(Script, SummaryKnowsItsLayers) {
  Pair pair;
  const auto eager = summarise(*pair.network, input);
  const auto script = summarise(*pair.script_network, input);
  ASSERT_EQ(script.layers.size(), 3);
  EXPECT_EQ(script.layers[0].kind, "Conv2d");
  EXPECT_EQ(script.parameters, eager.parameters);
  EXPECT_EQ(script.multiply_adds, eager.multiply_adds);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(script.layers[i].output, eager.layers[i].output);
}

TEST(Script, FilesAreToldFromNames) {
  for (const auto* file : {"a.pt", "a.pth", "a.ts", "b/convnet", "./x", "a.torchscript"})
    EXPECT_TRUE(is_script(file)) << file;
  for (const auto* name : {"convnet", "resnet-50", "wrn28_10", ""}) EXPECT_FALSE(is_script(name));
}

TEST(Script, RefusesWhatCannotBeTrainedWithTheRemedy) {
  EagerNet twin;
  const auto refused = [&](const std::string& forward,
                           const std::function<void(jit::Module&)>& change = {}) {
    const TemporaryFolder folder;
    const auto file = save_module(folder, twin, forward, change);
    return thrown<std::invalid_argument>([&] { load_script(file, input, classes); });
  };
  const std::string usual = usual_forward;
  EXPECT_EQ(refused(usual), "no exception");
  const auto tuple = refused(R"(
def forward(self, x):
    return (x, x)
)");
  EXPECT_NE(tuple.find("received a Tuple"), std::string::npos) << tuple;
  const auto wants = refused("def forward(self, x, y):\n    return x + y\n");
  EXPECT_NE(wants.find("also needs y"), std::string::npos) << wants;
  const auto shape = refused("def forward(self, x):\n    return torch.linear(x, self.fc.weight)\n");
  EXPECT_NE(shape.find("mat1 and mat2 shapes cannot be multiplied"), std::string::npos) << shape;
  EXPECT_NE(shape.find("on images 1 x 8 x 8"), std::string::npos) << shape;
  const auto moving = refused(R"(
def forward(self, x):
    self.shift.add_(1)
    return torch.linear(torch.flatten(torch.conv2d(x, self.conv.weight), 1), self.fc.weight)
)");
  EXPECT_NE(moving.find("a module that was traced in training mode does"), std::string::npos)
      << moving;
  const auto still = refused(usual, [](jit::Module& module) {
    module.attr("fc").toModule().attr("bias").toTensor().set_requires_grad(false);
  });
  EXPECT_NE(still.find("fc.bias with requires_grad = False"), std::string::npos) << still;
  const auto flag = refused(usual, [](jit::Module& module) {
    module.register_parameter("mask", torch::ones({2}, torch::kBool), /*is_buffer=*/true);
  });
  EXPECT_NE(flag.find("received mask of type Bool"), std::string::npos) << flag;
  const auto half = refused(usual, [](jit::Module& module) {
    module.register_parameter("half", torch::ones({2}, torch::kHalf).requires_grad_(true), false);
  });
  EXPECT_NE(half.find("received half of type Half"), std::string::npos) << half;
  const auto tied = refused(usual, [](jit::Module& module) {
    auto shared = module.attr("fc").toModule().attr("bias").toTensor();
    module.register_parameter("again", shared, false);
  });
  EXPECT_NE(tied.find("which share one storage (tied weights)"), std::string::npos) << tied;
}

TEST(Script, RefusesFilesThatAreNoModule) {
  const TemporaryFolder folder;
  const auto place = (folder.path() / "weights.pt").string();
  const auto load = [&] { load_script(place, input, classes); };
  jit::Module empty("Empty");
  empty.define("def forward(self, x):\n    return x\n");
  empty.save(place);
  EXPECT_NE(thrown<std::invalid_argument>(load).find("has no parameters"), std::string::npos)
      << thrown<std::invalid_argument>(load);
  std::ofstream(place) << "text";
  EXPECT_NE(thrown<std::invalid_argument>(load).find("torch.jit.script(model).save"),
            std::string::npos);
}

}  // namespace
}  // namespace dimred::models
