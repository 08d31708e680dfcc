#include <gtest/gtest.h>

#include <cmath>

#include "stage1/step.h"
#include "tests/tools/host_graph.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/toy_setup.h"

namespace dimred::stage1 {
namespace {

optimizers::OptimizerOptions options_of(optimizers::OptimizerKind kind) {
  optimizers::OptimizerOptions options{.kind = kind, .sgd = {.weight_decay = 1e-3}};
  options.gradient = {.max_gradient_norm = 0.5, .centralize = true};
  return options;
}

/// The weights after 8 steps; the first and the sixth have rate 0.
torch::Tensor descended(engine::Setup& setup, Descent& descent) {
  auto batch = engine::first_batch(setup);
  const auto tensors = to_minibatch(setup.model, batch);
  for (std::int64_t step = 0; step < 8; ++step) {
    const double rate = step % 5 == 0 ? 0 : 0.01 * static_cast<double>(step);
    descend(descent,
            {.tensors = tensors, .global_count = batch.count(), .key = {.step = step}},
            rate,
            step + 1);
  }
  return setup.model.flat.weights;
}

TEST(RecordedStep, HasTheBitsOfOneThatIsNotRecorded) {
  for (const auto& [name, kind] : optimizers::optimizer_kinds()) {
    auto plain = engine::toy_setup(models::Precision::float32);
    auto setup = engine::toy_setup(models::Precision::float32);
    int replays = 0;
    setup.model.graphs = engine::host_graphs(replays);
    const auto options = options_of(kind);
    Descent recorded(setup, options, {}), other(plain, options, {});
    EXPECT_TRUE(torch::equal(descended(setup, recorded), descended(plain, other))) << name;
    EXPECT_TRUE(setup.model.graphs->gradient.is_recorded() && recorded.update->is_recorded());
    EXPECT_FALSE(other.update);
    const bool rests = kind == optimizers::OptimizerKind::ftrl;  // at rate 0
    EXPECT_EQ(replays, 5 + (rests ? 3 : 5)) << name;             // gradients and updates
  }
}

/// The recorded graph belongs to the descent, not to the network.
TEST(RecordedStep, IsOfItsOwnDescent) {
  auto plain = engine::toy_setup(models::Precision::float32);
  auto setup = engine::toy_setup(models::Precision::float32);
  int replays = 0;
  setup.model.graphs = engine::host_graphs(replays);
  const auto options = options_of(optimizers::OptimizerKind::momentum);
  for (int i = 0; i < 2; ++i) {
    Descent recorded(setup, options, {}), other(plain, options, {});
    EXPECT_TRUE(torch::equal(descended(setup, recorded), descended(plain, other))) << i;
  }
}

TEST(RecordedStep, AnOverflowLeavesItOut) {
  auto setup =
      engine::toy_setup(models::Precision::float32, engine::steep_network(std::ldexp(1, 100)));
  int replays = 0;
  setup.model.graphs = engine::host_graphs(replays);
  setup.model.loss_scale =
      engine::LossScale({.dynamic = true, .init_loss_scaling = std::ldexp(1, 60)});
  Descent descent(setup, options_of(optimizers::OptimizerKind::momentum), {});
  auto batch = engine::first_batch(setup);
  const auto before = setup.model.flat.weights.clone();
  for (std::int64_t step = 0; step < 5; ++step)
    descend(descent,
            {.tensors = to_minibatch(setup.model, batch),
             .global_count = batch.count(),
             .key = {.step = step}},
            0.1,
            step + 1);
  EXPECT_EQ(setup.model.loss_scale.overflows(), 5);
  EXPECT_TRUE(torch::equal(setup.model.flat.weights, before));
  EXPECT_FALSE(descent.update->is_recorded());
}

}  // namespace
}  // namespace dimred::stage1
