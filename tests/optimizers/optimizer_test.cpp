#include "optimizers/optimizer.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

#include <cmath>
#include <set>

#include "optimizers/clip.h"
#include "tests/options/idle_rows.h"

namespace dimred::optimizers {
namespace {

layout::Layout small_layout() {
  return layout::make_layout({{.name = "conv", .shape = {4, 3, 2, 2}},
                              {.name = "bias", .shape = {4}, .decay = false},
                              {.name = "dense", .shape = {5, 7}}});
}

/// A vector with zeros in the padding, as a network's.
torch::Tensor filled(const layout::Layout& layout) {
  auto vector = torch::zeros({layout.memory_size});
  for (const auto& entry : layout.entries)
    vector.narrow(0, entry.memory_offset, entry.size).normal_();
  return vector;
}

/// The trust ratio by parameter, in float64; biases take the plain momentum step.
TEST(Optimizer, LarsScalesEachParameterByItsNorms) {
  torch::manual_seed(1);
  const auto layout = small_layout();
  OptimizerOptions options{.kind = OptimizerKind::lars, .sgd = {.weight_decay = 0.1}};
  options.lars = {.coefficient = 0.02, .epsilon = 1e-3};
  auto weights = filled(layout);
  auto expected = weights.to(torch::kFloat64), momentum = torch::zeros_like(expected);
  const auto ours = make_optimizer(options, segments_of(layout), weights);
  StepControl control(torch::kCPU);
  for (int t = 1; t <= 5; ++t) {
    const auto gradient = filled(layout);
    control.set(0.5, t);
    ours->step(weights, gradient, control);
    for (const auto& entry : layout.entries) {
      auto w = expected.narrow(0, entry.memory_offset, entry.size);
      auto m = momentum.narrow(0, entry.memory_offset, entry.size);
      const auto g = gradient.to(torch::kFloat64).narrow(0, entry.memory_offset, entry.size);
      const double norm = w.norm().item<double>();
      const double trust = 0.02 * norm / (g.norm().item<double>() + 0.1 * norm + 1e-3);
      m.mul_(0.9).add_(entry.decay ? (g + 0.1 * w) * trust : g);
      w.sub_(m, 0.5);
    }
    ASSERT_TRUE(torch::allclose(weights.to(torch::kFloat64), expected, 1e-6, 1e-6)) << t;
  }
}

/// A resume sets the padding of every state to 0, whatever its first value was.
TEST(Optimizer, PaddingStaysZeroAlsoAfterAResume) {
  for (const auto& [name, kind] : optimizer_kinds()) {
    OptimizerOptions options{.kind = kind};
    options.accumulator.adagrad_initial = 0;
    auto weights = torch::zeros({64});
    const auto optimizer =
        make_optimizer(options, {{.columns = {0, 64}, .decay = true, .size = 60}}, weights);
    StepControl control(torch::kCPU);
    for (const bool resumed : {false, true}) {
      control.set(0.1, 1);
      optimizer->step(weights, torch::zeros({64}), control);
      EXPECT_TRUE(torch::equal(weights, torch::zeros({64}))) << name << ", resumed " << resumed;
      for (auto& [vector_name, vector] : optimizer->vectors()) vector.zero_();
    }
  }
}

/// A recorded step is done again without the host, whose numbers are those of then.
TEST(Optimizer, OnADeviceReadsNoNumberOfTheHost) {
  for (const auto& [name, kind] : optimizer_kinds()) {
    torch::manual_seed(1);
    auto weights = torch::randn({100});
    auto recorded = weights.clone();
    const OptimizerOptions options{.kind = kind};
    const std::vector<Segment> segments = {{.columns = {0, 100}, .decay = true, .size = 100}};
    const auto plain = make_optimizer(options, segments, weights);
    const auto other = make_optimizer(options, segments, recorded);
    StepControl control(torch::kCPU), of_device(torch::kCPU);
    of_device.on_device = true;
    for (int t = 1; t <= 3; ++t) {
      const auto gradient = torch::randn({100});
      control.set(0.1, t);
      plain->step(weights, gradient, control);
      of_device.set(NAN, 100);
      torch::Tensor(of_device.learning_rate()).fill_(0.1);
      torch::Tensor(of_device.step()).fill_(t);
      other->step(recorded, gradient, of_device);
    }
    EXPECT_TRUE(torch::equal(weights, recorded)) << name;
  }
}

TEST(Gradient, IsCutToItsGreatestNormAsTorchCutsIt) {
  torch::manual_seed(1);
  auto gradient = torch::randn({5000});
  auto parameter = torch::zeros({5000}).requires_grad_(true);
  parameter.mutable_grad() = gradient.clone();
  torch::nn::utils::clip_grad_norm_(parameter, 3.0);
  const auto norm = gradient.to(torch::kFloat64).norm().item<double>();
  EXPECT_NEAR(clip_to_norm(gradient, {}, 3.0).item<double>(), norm, 1e-10 * norm);
  EXPECT_TRUE(torch::allclose(gradient, parameter.grad(), 1e-6, 0));
  EXPECT_NEAR(gradient.norm().item<double>(), 3, 1e-5);
}

TEST(Gradient, ThatIsShortStaysBitForBit) {
  auto gradient = torch::randn({5000});
  const auto before = gradient.clone();
  clip_to_norm(gradient, {}, 1e3);
  EXPECT_TRUE(torch::equal(gradient, before));
  auto zero = torch::zeros({10});
  clip_to_norm(zero, {}, 1);
  EXPECT_TRUE(torch::equal(zero, torch::zeros({10})));
}

/// Columns [0, 64) of every rank, and this rank's of 90 columns behind them.
struct ShardedVectors {
  torch::Tensor weights = torch::randn({154}), gradient = torch::randn({154});
  std::vector<Segment> whole = {{.columns = {0, 64}, .decay = true, .size = 64},
                                {.columns = {64, 154}, .decay = true, .size = 90}};

  static torch::Tensor own(const torch::Tensor& vector, std::int64_t begin, std::int64_t end) {
    return torch::cat({vector.slice(0, 0, 64), vector.slice(0, 64 + begin, 64 + end)});
  }
  static std::vector<Segment> segments(std::int64_t size) {
    return {{.columns = {0, 64}, .decay = true, .size = 64},
            {.columns = {64, 64 + size}, .decay = true, .size = size, .sharded = true}};
  }
  /// The other ranks' squares of these vectors, added by the sum.
  static SumOverRanks sum(std::vector<torch::Tensor> vectors,
                          std::int64_t begin,
                          std::int64_t end) {
    return [vectors = std::move(vectors), begin, end](torch::Tensor& squares) {
      for (std::size_t i = 0; i < vectors.size(); ++i) {
        const auto rows = vectors[i].slice(0, 64).to(torch::kFloat64).square();
        const auto others = rows.sum() - rows.slice(0, begin, end).sum();
        squares.view({-1})[static_cast<std::int64_t>(i)] += others;
      }
    };
  }
};

TEST(Gradient, OfShardedColumnsIsCutByTheNormOfAllRanks) {
  torch::manual_seed(1);
  const ShardedVectors vectors;
  auto whole = vectors.gradient.clone();
  const auto norm = clip_to_norm(whole, vectors.whole, 2.0).item<double>();
  for (const auto& [begin, end] : {std::pair{0, 40}, {40, 90}, {90, 90}}) {
    auto own = ShardedVectors::own(vectors.gradient, begin, end);
    const auto sum = ShardedVectors::sum({vectors.gradient}, begin, end);
    const auto found = clip_to_norm(own, ShardedVectors::segments(end - begin), 2.0, sum);
    EXPECT_NEAR(found.item<double>(), norm, 1e-12 * norm);
    EXPECT_TRUE(torch::allclose(own, ShardedVectors::own(whole, begin, end), 1e-6, 0));
  }
}

TEST(Lars, TrustsShardedColumnsByTheNormsOfAllRanks) {
  torch::manual_seed(2);
  const ShardedVectors vectors;
  OptimizerOptions options{.kind = OptimizerKind::lars};
  options.sgd.weight_decay = 0.01;
  StepControl control(torch::kCPU);
  control.set(10, 1);
  auto whole = vectors.weights.clone();
  make_optimizer(options, vectors.whole, whole)->step(whole, vectors.gradient, control);
  EXPECT_GT((whole - vectors.weights).abs().max().item<float>(), 1e-3);
  for (const auto& [begin, end] : {std::pair{0, 40}, {40, 90}, {90, 90}}) {
    auto own = ShardedVectors::own(vectors.weights, begin, end);
    const auto gradient = ShardedVectors::own(vectors.gradient, begin, end);
    const auto sum = ShardedVectors::sum({vectors.weights, vectors.gradient}, begin, end);
    make_optimizer(options, ShardedVectors::segments(end - begin), own, sum)
        ->step(own, gradient, control);
    EXPECT_TRUE(torch::allclose(own, ShardedVectors::own(whole, begin, end), 1e-6, 1e-7));
  }
}

TEST(Gradient, IsCenteredByOutputChannel) {
  torch::manual_seed(1);
  const auto layout = small_layout();
  auto gradient = filled(layout);
  const auto before = gradient.clone();
  centralize(gradient, segments_of(layout));
  for (const auto& entry : layout.entries) {
    const auto was = before.narrow(0, entry.memory_offset, entry.size);
    const auto is = gradient.narrow(0, entry.memory_offset, entry.size);
    if (!entry.decay) {
      EXPECT_TRUE(torch::equal(was, is));
      continue;
    }
    const auto rows = was.view({entry.shape.front(), -1});
    EXPECT_TRUE(torch::allclose(is.view_as(rows), rows - rows.mean(1, true), 1e-6, 1e-6));
  }
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  const auto refused = [](auto spoil) {
    OptimizerOptions options;
    spoil(options);
    EXPECT_THROW(validate(options), std::invalid_argument);
  };
  EXPECT_NO_THROW(validate(OptimizerOptions{}));
  refused([](auto& o) { o.epsilon = 0; });
  refused([](auto& o) { o.adam.beta1 = 1; });
  refused([](auto& o) { o.adam.beta2 = NAN; });
  refused([](auto& o) { o.accumulator.adadelta_rho = 1; });
  refused([](auto& o) { o.rmsprop.decay = -0.1; });
  refused([](auto& o) { o.ftrl.learning_rate_power = 1; });
  refused([](auto& o) { o.ftrl.initial_accumulator = 0; });
  refused([](auto& o) { o.lars.coefficient = 0; });
  refused([](auto& o) { o.gradient.max_gradient_norm = 0; });
  refused([](auto& o) {
    o.kind = OptimizerKind::adam;
    o.sgd.nesterov = true;
  });
}

/// Weights after a few steps: all that an optimizer's own options can change.
torch::Tensor trained(const OptimizerOptions& options) {
  torch::manual_seed(1);
  auto weights = torch::randn({64});
  const auto optimizer =
      make_optimizer(options, {{.columns = {0, 64}, .decay = true, .size = 64}}, weights);
  StepControl control(torch::kCPU);
  for (int t = 1; t <= 4; ++t) {
    control.set(0.1, t);
    optimizer->step(weights, torch::randn({64}), control);
  }
  return weights;
}

/// Whether one value of the row at least changes what an optimizer of this kind does, and is taken.
bool acts(const Option& row, OptimizerKind kind) {
  const OptimizerOptions plain{.kind = kind};
  for (const auto& value : other_values(row)) {
    auto options = plain;
    OptionTable table("dimred test", "");
    add_options(table, options);
    table.give(row.name, value, "test");
    const bool refused = is_refused(table);
    const bool changes = !refused && !trained(options).equal(trained(plain));
    EXPECT_EQ(refused, !changes) << name_of(kind) << ' ' << row.name << ' ' << value;
    if (changes) return true;
  }
  return false;
}

TEST(Optimizer, OptionsThatItIgnoresAreRefusedAndNoOthers) {
  std::set<std::string> acting;
  for (const auto& [name, kind] : optimizer_kinds()) {
    OptimizerOptions options{.kind = kind};
    OptionTable table("dimred test", "");
    add_options(table, options);
    for (const auto& row : table.rows()) {
      const auto& gradient = options.gradient;  // changed before the step
      if (row.field == &options.kind || row.field == &gradient.max_gradient_norm ||
          row.field == &gradient.centralize)
        continue;
      if (acts(row, kind)) acting.insert(row.name);
    }
  }
  EXPECT_EQ(acting.size(), 16U);  // each with one optimizer at least
}

}  // namespace
}  // namespace dimred::optimizers
