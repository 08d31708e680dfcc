#include "engine/heads/margin_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <tuple>

#include "engine/passes/buckets.h"
#include "engine/weights/full_vector.h"
#include "tests/tools/margin_setup.h"

namespace dimred::engine {
namespace {

/// Eight samples in files' order; of more ranks than one the second has none.
models::Minibatch part_of_batch(int rank, int ranks) {
  torch::manual_seed(6);
  const auto images = torch::randn({8, 1, 28, 28});
  const auto labels = torch::arange(8) + 2;
  const std::vector<std::int64_t> begins =
      ranks == 1 ? std::vector<std::int64_t>{0, 8} : std::vector<std::int64_t>{0, 3, 3, 8};
  const auto place = static_cast<std::size_t>(rank);
  const auto end = rank + 1 == ranks ? 8 : begins[place + 1];
  return {images.narrow(0, begins[place], end - begins[place]),
          labels.narrow(0, begins[place], end - begins[place])};
}

struct StepResult {
  BatchResult batch;
  double trial = 0;
  std::vector<float> weights, gradient;  // [M]
};

StepResult first_step(int ranks, const models::HeadOptions& head) {
  StepResult result;
  on_ranks(ranks, [&](const auto& communicator) {
    auto setup = setup_on(communicator, head);
    const auto batch = [&] {
      const std::lock_guard lock(generator);
      return part_of_batch(communicator->rank(), ranks);
    }();
    communicator->barrier();  // a pass seeds the generator that another rank still draws from
    GradientBuckets buckets(*setup.model.objective, setup.model.flat, *communicator, {});
    const auto whole = loss_and_gradient(setup, batch, 8, {}, &buckets);
    buckets.finish();
    const auto trial = loss_only(setup, batch, {}).mean_loss();
    EXPECT_EQ(trial, whole.mean_loss());  // a trial at t = 0
    auto weights = full_vector(setup, setup.model.flat.weights);
    auto gradient = full_vector(setup, setup.model.flat.gradient);
    if (communicator->rank() != 0) {
      EXPECT_TRUE(weights.empty());
      return;
    }
    result = {whole, trial, std::move(weights), std::move(gradient)};
  });
  return result;
}

class HeadOnRanks : public testing::TestWithParam<std::tuple<int, double>> {};
INSTANTIATE_TEST_SUITE_P(RanksAndSampling,
                         HeadOnRanks,
                         testing::Combine(testing::Values(2, 3), testing::Values(1, 0.3)));

TEST_P(HeadOnRanks, LossAndGradientAreThoseOfOneRank) {
  const auto [ranks, ratio] = GetParam();
  const auto one = first_step(1, arcface(ratio));
  const auto many = first_step(ranks, arcface(ratio));
  EXPECT_EQ(many.weights, one.weights);  // drawn alike
  EXPECT_EQ(many.batch.sample_count, 8);
  EXPECT_EQ(many.batch.correct_count, one.batch.correct_count);
  EXPECT_NEAR(many.batch.loss_sum, one.batch.loss_sum, 1e-5 * one.batch.loss_sum);
  ASSERT_EQ(many.gradient.size(), one.gradient.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < one.gradient.size(); ++i) {
    largest = std::max<double>(largest, std::abs(one.gradient[i]));
    difference = std::max<double>(difference, std::abs(one.gradient[i] - many.gradient[i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(difference, 1e-5 * largest);  // float32 sums in another order
}

TEST(MarginHead, GradientIsTheLosssByFiniteDifferences) {
  auto setup = setup_on(distributed::single_rank(), arcface());
  const auto batch = part_of_batch(0, 1);
  loss_and_gradient(setup, batch, 8, {});
  const auto gradient = setup.model.flat.gradient.clone();
  torch::manual_seed(8);
  const auto direction = torch::randn_like(gradient);
  const auto start = setup.model.flat.weights.detach().clone();
  const auto loss_at = [&](double t) {
    const torch::NoGradGuard no_grad;
    setup.model.flat.weights.copy_(start + t * direction);
    return loss_only(setup, batch, {}).mean_loss();
  };
  const double h = 1e-3;
  const double slope = (loss_at(h) - loss_at(-h)) / (2 * h);
  EXPECT_NEAR(gradient.dot(direction).template item<double>(), slope, 2e-2 * std::abs(slope));
}

TEST(MarginHead, FewerClassesThanRanksAreRefused) {
  on_gloo_ranks(3, [&](distributed::TensorCommunicator& communicator) {
    EXPECT_THROW(margin_head(arcface(), 2, 1, {&communicator, [](auto*) {}}, torch::kCPU),
                 std::invalid_argument);
  });
}

}  // namespace
}  // namespace dimred::engine
