#include "method/line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dimred::method {
namespace {

TEST(Armijo, AcceptsTheFullNewtonStepOfAQuadratic) {
  const auto loss = [](double t) { return 0.5 * (1 - t) * (1 - t); };  // slope -1 at 0
  const auto result = armijo(loss, 0.5, -1, {.sufficient_decrease = 0.4});
  EXPECT_EQ(result.outcome, SearchOutcome::accepted);
  EXPECT_EQ(result.step_size, 1);
  EXPECT_EQ(result.trials, 1);
  EXPECT_EQ(result.loss, 0);
}

TEST(Armijo, BacktracksByRhoToTheFirstSufficientDecrease) {
  // (1 - 8 t)^2 / 2 falls by enough only for t <= (1 - sigma) / 4 = 0.15: 1, 0.5, 0.25, 0.125.
  const auto loss = [](double t) { return 0.5 * (1 - 8 * t) * (1 - 8 * t); };
  const auto result =
      armijo(loss, 0.5, -8, {.contraction = 0.5, .sufficient_decrease = 0.4, .trials = 10});
  EXPECT_EQ(result.outcome, SearchOutcome::accepted);
  EXPECT_EQ(result.step_size, 0.125);
  EXPECT_EQ(result.trials, 4);
}

TEST(Armijo, RejectsAscentDirectionWithoutATrial) {
  int calls = 0;
  const auto loss = [&](double) { return ++calls, 0.0; };
  for (const double slope : {0.0, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto result = armijo(loss, 1, slope, {});
    EXPECT_EQ(result.outcome, SearchOutcome::ascent_direction);
    EXPECT_EQ(result.step_size, 0);
    EXPECT_EQ(result.loss, 1);
  }
  EXPECT_EQ(calls, 0);
}

TEST(Armijo, CountsATrialThatIsNotFiniteAsFailed) {
  const auto loss = [](double t) {
    return t > 0.6   ? std::numeric_limits<double>::quiet_NaN()
           : t > 0.3 ? -std::numeric_limits<double>::infinity()
                     : -t;
  };
  const auto result =
      armijo(loss, 0, -1, {.contraction = 0.5, .sufficient_decrease = 0.1, .trials = 5});
  EXPECT_EQ(result.outcome, SearchOutcome::accepted);
  EXPECT_EQ(result.step_size, 0.25);
}

TEST(Armijo, ReportsTheLossOfTheLastPointVisited) {
  std::vector<double> visited;
  const auto loss = [&](double t) { return visited.push_back(t), 5 + t; };  // never falls
  const auto result =
      armijo(loss, 5, -1, {.contraction = 0.5, .sufficient_decrease = 0.1, .trials = 3});
  EXPECT_EQ(result.outcome, SearchOutcome::no_decrease);
  EXPECT_EQ(visited, (std::vector<double>{1, 0.5, 0.25}));
  EXPECT_EQ(result.step_size, 0.25);
  EXPECT_EQ(result.loss, 5.25);
}

TEST(Armijo, StrictRefusesEquality) {
  const auto at_bound = [](double t) { return 1 - 0.5 * t; };
  EXPECT_EQ(armijo(at_bound, 1, -1, {.sufficient_decrease = 0.5, .trials = 1}).outcome,
            SearchOutcome::accepted);
  EXPECT_EQ(
      armijo(at_bound, 1, -1, {.sufficient_decrease = 0.5, .trials = 1, .strict = true}).outcome,
      SearchOutcome::no_decrease);
}

}  // namespace
}  // namespace dimred::method
