#include "stage1/learning_rate_finder.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "tests/tools/toy_setup.h"

namespace dimred::stage1 {
namespace {

/// A smoothed loss of log10(rate), a rate every tenth of a decade from 1e-6.
std::vector<FinderPoint> points_of(int count, double (*loss)(double)) {
  std::vector<FinderPoint> points;
  for (int i = 0; i < count; ++i) {
    const double decades = -6 + 0.1 * i;
    points.push_back({.learning_rate = std::pow(10, decades), .smoothed = loss(decades)});
  }
  return points;
}

TEST(Suggestion, LeavesOutTheFirstTenthAndTheLastFive) {
  auto points = points_of(60, [](double x) { return std::abs(x + 3); });
  points[5].smoothed = -1;   // one of the first 60 / 10
  points[55].smoothed = -2;  // one of the last 5
  EXPECT_NEAR(std::log10(suggest(points, 60).minimum), -3, 1e-9);
  points[6].smoothed = -1;
  EXPECT_EQ(suggest(points, 60).minimum, points[6].learning_rate);
  points[54].smoothed = -2;
  EXPECT_EQ(suggest(points, 60).minimum, points[54].learning_rate);
}

TEST(Suggestion, NeedsTwoPoints) {
  const auto points = points_of(17, [](double x) { return x; });
  EXPECT_NO_THROW(suggest(points, 100));  // 17 - 5 - 10
  EXPECT_THROW(suggest({points.begin(), points.end() - 1}, 100), std::runtime_error);
}

TEST(Sweep, RisesToItsEndOrToALossThatGrew) {
  torch::set_num_threads(1);
  Console quiet(/*quiet=*/true);
  const auto sweep_to = [&](double end_rate) {
    auto setup = engine::toy_setup(models::Precision::float32);
    return sweep(setup, {.start_rate = 1e-6, .end_rate = end_rate, .steps = 20}, {}, quiet);
  };
  const auto small = sweep_to(1e-4);
  ASSERT_EQ(small.size(), 20U);  // 7 epochs of 3 steps
  EXPECT_EQ(small.front().learning_rate, 1e-6);
  EXPECT_NEAR(small[1].learning_rate, 1e-6 * std::pow(100, 1.0 / 19), 1e-18);
  EXPECT_NEAR(small.back().learning_rate, 1e-4, 1e-16);
  const auto large = sweep_to(1e9);
  ASSERT_LT(large.size(), 20U);
  EXPECT_EQ(large.front().loss, small.front().loss);  // the same weights, batch and masks
  double least = large.front().smoothed;
  for (std::size_t i = 0; i + 1 < large.size(); ++i) {
    EXPECT_LE(large[i].smoothed, 4 * least);
    least = std::min(least, large[i].smoothed);
  }
}

TEST(Sweep, RefusesRatesThatDoNotRise) {
  EXPECT_THROW(validate(FinderOptions{.start_rate = 0}), std::invalid_argument);
  EXPECT_THROW(validate(FinderOptions{.start_rate = 1, .end_rate = 1}), std::invalid_argument);
  EXPECT_THROW(validate(FinderOptions{.steps = 19}), std::invalid_argument);
  EXPECT_NO_THROW(validate(FinderOptions{}));
}

}  // namespace
}  // namespace dimred::stage1
