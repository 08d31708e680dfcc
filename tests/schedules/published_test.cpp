#include <gtest/gtest.h>

#include <limits>

#include "schedules/piecewise.h"
#include "schedules/schedule.h"

// What the sources leave open; their own arithmetic is in tests/python/test_schedules.py.
namespace dimred::schedules {
namespace {

// A few operations in another order on values <= 1.
constexpr double published_rounding = 16 * std::numeric_limits<double>::epsilon();

double at(const ScheduleOptions& options, double step) { return learning_rate(options, step, 10); }

ScheduleOptions of_100_steps(ScheduleKind kind) {
  ScheduleOptions options{.kind = kind, .learning_rate = 0.8};
  options.steps.total = 100;
  return options;
}

TEST(Published, OurPolynomialWithADecaySchemeEndsWithTheSchedule) {
  auto options = of_100_steps(ScheduleKind::polynomial);
  options.decay_scheme = DecayScheme::luong5;
  options.end_learning_rate = 0.2;
  options.power = 1;
  EXPECT_EQ(at(options, 50), 0.8);
  EXPECT_NEAR(at(options, 75), 0.5, published_rounding);
  EXPECT_NEAR(at(options, 100), 0.2, published_rounding);
}

TEST(Published, TheRateOfTheLastStepStays) {
  auto exponential = of_100_steps(ScheduleKind::exponential);
  exponential.factor = 0.5;
  exponential.decay_scheme = DecayScheme::luong5;
  EXPECT_EQ(at(exponential, 500), 0.05);
  auto cosine = of_100_steps(ScheduleKind::mindspore_cosine);
  cosine.steps.warmup = 20;
  EXPECT_EQ(at(cosine, 150), at(cosine, 99));
  EXPECT_EQ(piecewise_rate(parse_pieces("5:0.1->0.4"), 6), 0.4);
}

TEST(Published, PiecesThatCannotBeReadAreNamed) {
  for (const auto* text : {"",
                           "5",
                           "5:",
                           ":0.1",
                           "5:0.1,",
                           "5:0.1,4:0.2",
                           "5:a",
                           "5:0.1->",
                           "5:0.1->0.2->0.3",
                           "5:-1",
                           "5:0.1=>0",
                           "0:0.1",
                           "nan:0.1",
                           "5:inf"})
    EXPECT_THROW(parse_pieces(text), std::invalid_argument) << text;
}

}  // namespace
}  // namespace dimred::schedules
