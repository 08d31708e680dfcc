#include "engine/weights/average.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dimred::engine {
namespace {

TEST(Average, TakesTheFirstAsItIs) {
  const method::AverageOptions ema{.kind = method::AverageKind::ema, .from = 0, .decay = 0.75};
  auto average = make_average(ema, torch::zeros({2}));
  add(average, ema, torch::full({2}, 4.F));
  EXPECT_EQ(average.values[0].item<float>(), 4);
  add(average, ema, torch::full({2}, 8.F));
  EXPECT_EQ(average.values[0].item<float>(), 5);
  EXPECT_EQ(average.count, 2);
}

/// Defazio et al. 2024, of the loss w^2 / 2 in numbers: y = (1 - beta) z + beta x,
/// z <- z - rate y, x <- the mean of the z so far.
TEST(Average, MovesAsScheduleFreeSgdIsPublished) {
  constexpr double beta = method::schedule_free_beta, rate = 0.5;
  const method::AverageOptions options{.kind = method::AverageKind::schedule_free};
  auto weights = torch::full({1}, 3.0, torch::kFloat64);
  auto average = make_average(options, weights);
  average.values.copy_(weights);
  double x = 3, z = 3, sum = 0;
  for (int n = 1; n <= 20; ++n) {
    weights.sub_(weights.clone(), (1 - beta) * rate);
    move_schedule_free(average, options, weights);
    z -= rate * ((1 - beta) * z + beta * x);
    sum += z;
    x = sum / n;
    ASSERT_NEAR(average.values.item<double>(), x, 1e-12) << n;
    ASSERT_NEAR(weights.item<double>(), (1 - beta) * z + beta * x, 1e-12) << n;
  }
  EXPECT_LT(std::abs(x), 0.5);
}

}  // namespace
}  // namespace dimred::engine
