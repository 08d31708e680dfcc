#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "schedules/piecewise.h"
#include "schedules/schedule.h"

// Closed forms at single steps; the whole of each against its source's arithmetic is in
// tests/python/test_schedules.py.
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

TEST(Published, T2tStartsAtAHundredthAndGrowsByAConstantRatio) {
  auto options = of_100_steps(ScheduleKind::constant);
  options.warmup_scheme = WarmupScheme::t2t;
  options.steps.warmup = 20;
  EXPECT_NEAR(at(options, 0), 0.008, published_rounding);
  EXPECT_NEAR(at(options, 10), 0.08, published_rounding);
  EXPECT_NEAR(at(options, 19) / at(options, 18), std::pow(100, 0.05), published_rounding);
  EXPECT_EQ(at(options, 20), 0.8);
}

TEST(Published, LuongSchemesDecayAsOftenAsTheirNamesSay) {
  auto options = of_100_steps(ScheduleKind::exponential);
  options.factor = 0.5;
  options.decay_scheme = DecayScheme::luong5;  // from step 50, every 10
  EXPECT_EQ(at(options, 59), 0.8);
  EXPECT_EQ(at(options, 60), 0.4);
  EXPECT_EQ(at(options, 99), 0.05);
  EXPECT_EQ(at(options, 500), 0.05);
  options.decay_scheme = DecayScheme::luong10;  // from 50, every 5
  EXPECT_EQ(at(options, 54), 0.8);
  EXPECT_EQ(at(options, 99), 0.8 / 512);
  options.decay_scheme = DecayScheme::luong234;  // from 66, every 8
  EXPECT_EQ(at(options, 73), 0.8);
  EXPECT_EQ(at(options, 74), 0.4);
  EXPECT_EQ(at(options, 99), 0.05);
}

TEST(Published, FastnnsPolynomialEndsWithinOneInterval) {
  auto options = of_100_steps(ScheduleKind::fastnn_polynomial);
  options.decay_scheme = DecayScheme::luong5;
  options.end_learning_rate = 0.2;
  EXPECT_EQ(at(options, 50), 0.8);
  EXPECT_NEAR(at(options, 55), 0.5, published_rounding);
  EXPECT_NEAR(at(options, 60), 0.2, published_rounding);
  EXPECT_NEAR(at(options, 99), 0.2, published_rounding);
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

TEST(Published, MindsporesCosineKeepsItsQuirks) {
  auto options = of_100_steps(ScheduleKind::mindspore_cosine);
  options.steps.warmup = 20;
  EXPECT_NEAR(at(options, 0), 0.04, published_rounding);  // a step ahead
  EXPECT_NEAR(at(options, 19), 0.8, published_rounding);
  const double cosine = (1 + std::cos(3.14159265358979323846 * 0.94 * 60 / 80)) / 2;
  EXPECT_NEAR(at(options, 60), 0.8 * (0.5 * cosine + 1e-5), published_rounding);
  EXPECT_EQ(at(options, 150), at(options, 99));  // it has no rate beyond its end
}

TEST(Published, MindsporesStepEndsAtItsConstant) {
  const auto options = of_100_steps(ScheduleKind::mindspore_step);
  EXPECT_EQ(at(options, 19), 0.8);
  EXPECT_NEAR(at(options, 20), 0.08, published_rounding);
  EXPECT_NEAR(at(options, 89), 0.0008, published_rounding);
  EXPECT_EQ(at(options, 90), 0.00005);
}

TEST(Published, PlscScalesTheRateButNotTheStartOfItsWarmUp) {
  auto options = of_100_steps(ScheduleKind::plsc);
  options.global_batch_size = 4096;
  options.steps.milestones = true;
  options.milestones = {40, 80};
  options.warmup_epochs = 2;
  EXPECT_EQ(at(options, 0), 0.8);
  EXPECT_NEAR(at(options, 10), 2.0, published_rounding * 4);
  EXPECT_NEAR(at(options, 20), 3.2, published_rounding * 4);
  EXPECT_NEAR(at(options, 40), 0.32, published_rounding);
  EXPECT_NEAR(at(options, 80), 0.032, published_rounding);
}

TEST(Published, PiecesJoinAndTheLastHolds) {
  const auto pieces = parse_pieces("5:0.1->0.4,10:0.4=>0.8,15:0.8,20:0.08");
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[1].shape, PieceShape::exponential);
  EXPECT_NEAR(piecewise_rate(pieces, 2.5), 0.25, published_rounding);
  EXPECT_NEAR(piecewise_rate(pieces, 7.5), 0.4 * std::sqrt(2), published_rounding);
  EXPECT_EQ(piecewise_rate(pieces, 10), 0.8);
  EXPECT_EQ(piecewise_rate(pieces, 14.99), 0.8);
  EXPECT_EQ(piecewise_rate(pieces, 15), 0.08);
  EXPECT_EQ(piecewise_rate(pieces, 1e6), 0.08);
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
