#include "merge/coefficients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::merge {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

Values even(std::size_t n, const CoefficientOptions& options) {
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < n; ++i) steps.push_back(100 + 50 * static_cast<std::int64_t>(i));
  return coefficients_of(steps, options).values();
}

void expect_near(const Values& values, const Values& expected, double tolerance = 1e-15) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance);
}

TEST(Coefficients, SumToOneWhateverTheSteps) {
  const std::vector<std::vector<std::int64_t>> runs{{7}, {1, 2}, {0, 10, 11, 90}};
  for (const auto& [name, kind] : kind_names()) {
    EXPECT_EQ(coefficients_of(runs[0], {.kind = kind}).values(), (Values{1})) << name;
    for (const auto& steps : runs) {
      const auto values = coefficients_of(steps, {.kind = kind}).values();
      EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), 1, 1e-15) << name;
    }
  }
}

// The values of WSM's rule at n = 8, and closed forms at n = 4.
TEST(Coefficients, AreThoseOfTheDecays) {
  expect_near(even(8, {.kind = Kind::minus_sqrt}),
              {.3536, .1464, .1124, .0947, .0835, .0755, .0694, .0646},
              5e-5);
  const double half = std::sqrt(0.5);
  expect_near(even(4, {.kind = Kind::cosine}),
              {(1 - half) / 2, half / 2, half / 2, (1 - half) / 2});
  expect_near(even(4, {.kind = Kind::linear}), {.25, .25, .25, .25});
  EXPECT_EQ(even(4, {}), (Values{.25, .25, .25, .25}));
}

TEST(Coefficients, FollowStepsThatAreNotEven) {
  const std::vector<std::int64_t> steps{0, 10, 40};  // the mean distance is 20: x = 0, 1/6, 2/3
  expect_near(coefficients_of(steps, {.kind = Kind::linear}).values(), {1. / 6, 1. / 2, 1. / 3});
  expect_near(coefficients_of(steps, {.kind = Kind::minus_sqrt}).values(),
              {std::sqrt(1. / 6), std::sqrt(2. / 3) - std::sqrt(1. / 6), 1 - std::sqrt(2. / 3)});
  EXPECT_EQ(coefficients_of(steps, {}).values(), (Values{1. / 3, 1. / 3, 1. / 3}));
}

TEST(Coefficients, OfDecaysNeedStepsThatAscend) {
  const auto refusal = [](Kind kind) {
    return thrown<std::invalid_argument>([&] {
      coefficients_of(std::vector<std::int64_t>{5, 7, 7}, {.kind = kind});
    });
  };
  EXPECT_THAT(refusal(Kind::cosine), HasSubstr("ascending steps, received step 7 before step 7"));
  EXPECT_EQ(refusal(Kind::wma), "no exception");
}

TEST(Coefficients, OfAveragesAreTheirRecursions) {
  expect_near(even(4, {.kind = Kind::wma}), {.1, .2, .3, .4});
  expect_near(even(3, {.kind = Kind::ema, .decay = .5}), {1. / 7, 2. / 7, 4. / 7});
  Values recursion{1, 0, 0};  // m = alpha w + (1 - alpha) m
  for (const std::size_t next : {1U, 2U}) {
    for (auto& value : recursion) value *= 1 - .2;
    recursion[next] += .2;
  }
  expect_near(even(3, {.kind = Kind::pma_ema, .alpha = .2}), recursion);
}

TEST(Coefficients, OfAPowerGrowWithTheStep) {
  const std::vector<std::int64_t> steps{10, 20, 40};
  const auto power = [&](double gamma) {
    return coefficients_of(steps, {.kind = Kind::power, .gamma = gamma}).values();
  };
  expect_near(power(1), {1. / 7, 2. / 7, 4. / 7});
  expect_near(power(3), {1. / 73, 8. / 73, 64. / 73});
  expect_near(power(0), {1. / 3, 1. / 3, 1. / 3});
  expect_near(power(1000), {0, 0, 1});
  const std::vector<std::int64_t> zero{0};
  EXPECT_THAT(thrown<std::invalid_argument>([&] { coefficients_of(zero, {.kind = Kind::power}); }),
              HasSubstr("power needs steps >= 0 and at least one step > 0"));
}

}  // namespace
}  // namespace dimred::merge
