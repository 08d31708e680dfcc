#include "engine/passes/gradient.h"

#include <gtest/gtest.h>

#include "models/network.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

class Precisions : public testing::TestWithParam<models::Precision> {
 protected:
  void SetUp() override {
    if (GetParam() == models::Precision::bfloat16 && !models::has_native_bfloat16(torch::kCPU)) {
      GTEST_SKIP() << "no native bfloat16 on this processor";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Both,
                         Precisions,
                         testing::Values(models::Precision::float32, models::Precision::bfloat16));

TEST_P(Precisions, TrialAtZeroEqualsTheStepsLossBitForBit) {
  for (const bool residual_network : {false, true}) {
    auto setup = toy_setup(
        GetParam(), residual_network ? models::make_network("resnet20", {1, 28, 28}, 10) : nullptr);
    auto batch = first_batch(setup);
    const auto minibatch = to_minibatch(setup.model, batch);
    const ForwardKey key{.epoch = 2, .step = 5};
    const auto step = loss_and_gradient(setup, minibatch, batch.global_count, key);
    EXPECT_EQ(loss_only(setup, minibatch, key).loss_sum, step.loss_sum);
    EXPECT_EQ(loss_only(setup, minibatch, key).loss_sum, step.loss_sum);  // and again
  }
}

TEST_P(Precisions, TrialElsewhereSeesTheNewWeights) {
  auto setup = toy_setup(GetParam());
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  const auto step = loss_and_gradient(setup, minibatch, batch.global_count, {});
  setup.model.flat.weights.detach().sub_(setup.model.flat.gradient, 0.01);
  EXPECT_NE(loss_only(setup, minibatch, {}).loss_sum,
            step.loss_sum);  // a stale autocast cache would agree
}

TEST(Gradient, DropoutMasksBelongToTheStep) {
  auto setup = toy_setup(models::Precision::float32);
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  const auto one = loss_only(setup, minibatch, {.epoch = 0, .step = 1}).loss_sum;
  EXPECT_NE(loss_only(setup, minibatch, {.epoch = 0, .step = 2}).loss_sum, one);
  EXPECT_EQ(loss_only(setup, minibatch, {.epoch = 0, .step = 1}).loss_sum, one);
}

/// f(w + h e) by central differences in float64 sums of float32 forward passes.
TEST(Gradient, IsTheMeanOverTheGlobalBatch) {
  torch::manual_seed(3);  // the network is drawn before toy_setup seeds
  auto setup =
      toy_setup(models::Precision::float32, models::make_network("convnet", {1, 28, 28}, 10));
  auto batch = first_batch(setup);
  const auto minibatch = to_minibatch(setup.model, batch);
  loss_and_gradient(setup, minibatch, batch.global_count, {});
  const auto gradient = setup.model.flat.gradient.clone();
  const auto direction = gradient / gradient.norm();
  const double h = 1e-3;  // h^2 truncation below 1e-4, rounding 1e-7 * loss / h = 2e-4
  auto& weights = setup.model.flat.weights;
  const auto start = weights.detach().clone();
  weights.detach().add_(direction, h);
  const double up = loss_only(setup, minibatch, {}).mean_loss();
  weights.detach().copy_(start).sub_(direction, h);
  const double down = loss_only(setup, minibatch, {}).mean_loss();
  EXPECT_NEAR((up - down) / (2 * h),
              gradient.norm().item<double>(),
              2e-3 * gradient.norm().item<double>());  // h^2 and eps / h
}

}  // namespace
}  // namespace dimred::engine
