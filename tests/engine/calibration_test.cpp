#include "engine/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "distributed/communicator.h"

namespace dimred::engine {
namespace {

/// `samples` of logits {size, 0}; `hits` of them are of class 0.
Predictions alike(double size, std::int64_t samples, std::int64_t right) {
  Predictions made{.logits = torch::zeros({samples, 2}),
                   .labels = torch::ones({samples}, torch::kInt64)};
  made.logits.select(1, 0).fill_(size);
  made.labels.slice(0, 0, right).zero_();
  return made;
}

TEST(Calibration, TheBestTemperatureGivesTheShareThatIsRight) {
  const auto alone = distributed::single_rank();
  const double best = best_temperature(alike(3, 40, 30), *alone);
  EXPECT_NEAR(best, 3 / std::log(30.0 / 10), 1e-6);  // softmax is 3/4 there
  EXPECT_LT(best_temperature(alike(0.5, 40, 30), *alone), 1);
}

TEST(Calibration, LossAndErrorAreThoseOfTheDefinition) {
  const auto alone = distributed::single_rank();
  const double sure = 1 / (1 + std::exp(-1.5));
  const auto found = calibration(alike(3, 40, 30), 2, *alone);
  EXPECT_NEAR(found.loss, -(0.75 * std::log(sure) + 0.25 * std::log(1 - sure)), 1e-6);
  EXPECT_NEAR(found.error, sure - 0.75, 1e-6);
  const Predictions both{.logits = torch::cat({alike(3, 40, 30).logits, alike(0.2, 10, 4).logits}),
                         .labels = torch::cat({alike(3, 40, 30).labels, alike(0.2, 10, 4).labels})};
  const double other = 1 / (1 + std::exp(-0.1)) - 0.4;  // of another bin
  EXPECT_NEAR(calibration(both, 2, *alone).error, (40 * (sure - 0.75) + 10 * other) / 50, 1e-6);
}

TEST(Calibration, ALossWithoutAMinimumEndsAtTheLastTemperature) {
  EXPECT_NEAR(best_temperature(alike(3, 40, 40), *distributed::single_rank()), 0.01, 1e-6);
}

TEST(Calibration, NoTemperatureFitsWhatIsNotFinite) {
  auto found = alike(3, 40, 30);
  found.logits[7][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(best_temperature(found, *distributed::single_rank()), std::runtime_error);
}

TEST(Calibration, ARankWithoutASampleAddsNothing) {
  const Predictions none{.logits = torch::zeros({0, 1}),
                         .labels = torch::zeros({0}, torch::kInt64)};
  const auto alone = distributed::single_rank();
  EXPECT_GT(best_temperature(none, *alone), 0);
  EXPECT_TRUE(std::isnan(calibration(none, 1, *alone).loss));  // 0 of 0 samples
}

}  // namespace
}  // namespace dimred::engine
