#include "schedules/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/options/idle_rows.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::schedules {
namespace {

constexpr double steps_per_epoch = 10;

// Closed forms are evaluated in another order of operations: a few roundings of values <= 1.
constexpr double rounding = 8 * std::numeric_limits<double>::epsilon();

ScheduleOptions warmed(ScheduleKind kind) {
  ScheduleOptions options;
  options.kind = kind;
  options.learning_rate = 0.8;
  options.start_learning_rate = 0.1;
  options.end_learning_rate = 0.2;
  options.warmup_epochs = 2;
  options.total_epochs = 12;
  if (kind == ScheduleKind::step) options.milestones = {11};
  return options;
}

double at_epoch(const ScheduleOptions& options, double epoch) {
  return learning_rate(options, epoch * steps_per_epoch, steps_per_epoch);
}

TEST(Schedule, EveryKindOfOursWarmsUpLinearly) {
  for (const auto& [name, kind] : schedule_kinds()) {
    if (kind > ScheduleKind::inverse_sqrt) break;  // the published ones: published_test.cpp
    const auto options = warmed(kind);
    EXPECT_DOUBLE_EQ(at_epoch(options, 0), 0.1) << name;
    EXPECT_NEAR(at_epoch(options, 0.5), 0.275, rounding) << name;
    EXPECT_NEAR(at_epoch(options, 1.9), 0.765, rounding) << name;
    EXPECT_DOUBLE_EQ(at_epoch(options, 2), 0.8) << name;
  }
}

TEST(Schedule, LinearReachesItsEndAndStays) {
  const auto options = warmed(ScheduleKind::linear);
  EXPECT_NEAR(at_epoch(options, 4.5), 0.65, rounding);  // a quarter of the way
  EXPECT_NEAR(at_epoch(options, 7), 0.5, rounding);
  EXPECT_NEAR(at_epoch(options, 12), 0.2, rounding);
  EXPECT_NEAR(at_epoch(options, 20), 0.2, rounding);
}

TEST(Schedule, CosineGivesItsClosedForm) {
  const auto options = warmed(ScheduleKind::cosine);
  const double third = 2 + 10.0 / 3;  // cos(pi / 3) = 1/2
  EXPECT_NEAR(at_epoch(options, third), 0.2 + 0.6 * 0.75, rounding);
  EXPECT_NEAR(at_epoch(options, 7), 0.5, rounding);
  EXPECT_NEAR(at_epoch(options, 12), 0.2, rounding);
  EXPECT_NEAR(at_epoch(options, 30), 0.2, rounding);
}

TEST(Schedule, PolynomialGivesItsClosedForm) {
  auto options = warmed(ScheduleKind::polynomial);
  EXPECT_NEAR(at_epoch(options, 7), 0.2 + 0.6 * 0.25, rounding);
  options.power = 3;
  EXPECT_NEAR(at_epoch(options, 7), 0.2 + 0.6 * 0.125, rounding);
  EXPECT_NEAR(at_epoch(options, 12), 0.2, rounding);
  EXPECT_NEAR(at_epoch(options, 30), 0.2, rounding);
}

TEST(Schedule, InverseSqrtHalvesInFourTimesTheWarmup) {
  auto options = warmed(ScheduleKind::inverse_sqrt);
  EXPECT_NEAR(at_epoch(options, 8), 0.4, rounding);
  EXPECT_NEAR(at_epoch(options, 18), 0.8 / 3, rounding);  // beyond the end, too
  EXPECT_FALSE(depends_on_length(options.kind));
  options.warmup_epochs = 0;  // counts as one step
  EXPECT_EQ(learning_rate(options, 0, steps_per_epoch), 0.8);
  EXPECT_EQ(learning_rate(options, 1, steps_per_epoch), 0.8);
  for (const double step : {4.0, 25.0, 100.0})
    EXPECT_NEAR(learning_rate(options, step, steps_per_epoch), 0.8 / std::sqrt(step), rounding);
}

TEST(Schedule, StepDropsAtEachMilestone) {
  auto options = warmed(ScheduleKind::step);
  options.milestones = {5, 8};
  options.factor = 0.5;
  EXPECT_EQ(at_epoch(options, 4.9), 0.8);
  EXPECT_EQ(at_epoch(options, 5), 0.4);  // the milestone itself counts
  EXPECT_EQ(at_epoch(options, 7.9), 0.4);
  EXPECT_EQ(at_epoch(options, 8), 0.2);
  EXPECT_EQ(at_epoch(options, 100), 0.2);
}

TEST(Schedule, AnnealsFromWhereverItIsToZero) {
  auto options = warmed(ScheduleKind::linear);
  options.anneal_from_epoch = 7;
  options.anneal_to_epoch = 9;
  EXPECT_NEAR(at_epoch(options, 6.5), 0.53, rounding);  // not yet
  EXPECT_NEAR(at_epoch(options, 7), 0.5, rounding);
  EXPECT_NEAR(at_epoch(options, 7.5), 0.375, rounding);
  EXPECT_NEAR(at_epoch(options, 8), 0.25, rounding);
  EXPECT_EQ(at_epoch(options, 9), 0);
  EXPECT_EQ(at_epoch(options, 11), 0);
  options.anneal_from_epoch = 0;  // from the start of the warm-up
  EXPECT_NEAR(at_epoch(options, 4.5), 0.05, rounding);
}

TEST(Schedule, AnnealsAConstantAndAStepSchedule) {
  auto constant = warmed(ScheduleKind::constant);
  constant.anneal_from_epoch = 18;
  constant.anneal_to_epoch = 20;
  EXPECT_EQ(at_epoch(constant, 18), 0.8);
  EXPECT_NEAR(at_epoch(constant, 19), 0.4, rounding);
  auto stepped = warmed(ScheduleKind::step);
  stepped.milestones = {10, 19};
  stepped.anneal_from_epoch = 18;
  stepped.anneal_to_epoch = 20;
  // The milestone inside the annealing does not count: it starts from the value at epoch 18.
  EXPECT_NEAR(at_epoch(stepped, 19.5), 0.08 * 0.25, rounding);
}

TEST(Schedule, ZeroTotalStandsForTheEpochsTrained) {
  ScheduleOptions options;
  options.learning_rate = 1;
  EXPECT_THROW(learning_rate(options, 0, 10), std::invalid_argument);
  EXPECT_NEAR(at_epoch(with_total(options, 20), 5), 0.75, rounding);
  options.total_epochs = 40;
  EXPECT_NEAR(at_epoch(with_total(options, 20), 5), 0.875, rounding);
}

struct BadCase {
  std::string rule;
  void (*spoil)(ScheduleOptions&);
};

TEST(Schedule, RefusesBadOptionsNamingTheRule) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_NO_THROW(validate(warmed(ScheduleKind::step)));
  const std::vector<BadCase> cases = {
      {"learning_rate > 0, received -0.1", [](auto& o) { o.learning_rate = -0.1; }},
      {"learning_rate > 0, received 0", [](auto& o) { o.learning_rate = 0; }},
      {"learning_rate > 0, received inf", [](auto& o) { o.learning_rate = INFINITY; }},
      {"start_learning_rate >= 0", [](auto& o) { o.start_learning_rate = -1; }},
      {"end_learning_rate >= 0", [](auto& o) { o.end_learning_rate = -1; }},
      {"total_epochs > 0", [](auto& o) { o.total_epochs = -3; }},
      {"0 <= warmup_epochs < total_epochs (12)", [](auto& o) { o.warmup_epochs = -1; }},
      {"0 <= warmup_epochs < total_epochs (12), received 12",
       [](auto& o) { o.warmup_epochs = 12; }},
      {"power > 0", [](auto& o) { o.power = 0; }},
      {"a factor in (0, 1]", [](auto& o) { o.factor = 0; }},
      {"a factor in (0, 1]", [](auto& o) { o.factor = 1.5; }},
      {"milestones >= 0",
       [](auto& o) {
         o.milestones = {-1, 3};
       }},
      {"ascending milestones",
       [](auto& o) {
         o.milestones = {5, 3};
       }},
      {"ascending milestones",
       [](auto& o) {
         o.milestones = {5, 5};
       }},
      {"milestones for the schedules step and plsc", [](auto& o) { o.milestones = {}; }},
      {"milestones for the schedules", [](auto& o) { o.kind = ScheduleKind::linear; }},
      {"anneal_to_epoch > anneal_from_epoch (4)", [](auto& o) { o.anneal_from_epoch = 4; }},
      {"anneal_to_epoch > anneal_from_epoch (4)",
       [](auto& o) { o.anneal_from_epoch = o.anneal_to_epoch = 4; }},
      {"anneal_from_epoch >= 0 if anneal_to_epoch is set", [](auto& o) { o.anneal_to_epoch = 4; }},
  };
  for (const auto& [rule, spoil] : cases) {
    auto options = warmed(ScheduleKind::step);
    spoil(options);
    const auto text = thrown<std::invalid_argument>([&] { learning_rate(options, 1, 10); });
    EXPECT_NE(text.find("[schedules] needs " + rule), std::string::npos) << rule << ": " << text;
  }
  for (double ScheduleOptions::*field : {&ScheduleOptions::learning_rate,
                                         &ScheduleOptions::start_learning_rate,
                                         &ScheduleOptions::end_learning_rate,
                                         &ScheduleOptions::warmup_epochs,
                                         &ScheduleOptions::total_epochs,
                                         &ScheduleOptions::power,
                                         &ScheduleOptions::factor,
                                         &ScheduleOptions::anneal_from_epoch,
                                         &ScheduleOptions::anneal_to_epoch}) {
    auto options = warmed(ScheduleKind::step);
    options.*field = nan;
    EXPECT_THROW(validate(options), std::invalid_argument);
  }
}

TEST(Schedule, RefusesAStepOutside) {
  const auto options = warmed(ScheduleKind::linear);
  EXPECT_THROW(learning_rate(options, -1, 10), std::invalid_argument);
  EXPECT_THROW(learning_rate(options, 1, 0), std::invalid_argument);
}

/// A rate of this kind over 12 epochs, by options that it takes.
ScheduleOptions usual(ScheduleKind kind, double warmup) {
  using enum ScheduleKind;
  ScheduleOptions options;
  options.kind = kind;
  options.learning_rate = 0.8;
  options.warmup_epochs = warmup;
  options.total_epochs = 12;
  options.global_batch_size = 256;
  if (kind == step || kind == plsc) options.milestones = {5};
  if (kind == piecewise) options.pieces = "6:0.5,12:0.1";
  if (kind == exponential || kind == fastnn_polynomial) options.decay_scheme = DecayScheme::luong5;
  return options;
}

/// The rate at every step; empty where the options contradict each other.
std::vector<double> curve_of(const ScheduleOptions& options) {
  std::vector<double> curve;
  try {
    for (int i = 0; i < 12 * steps_per_epoch; ++i)
      curve.push_back(learning_rate(options, i, steps_per_epoch));
  } catch (const std::invalid_argument&) {
    return {};
  }
  return curve;
}

/// Trials of a row: whether at least one of its values changes the curve, and whether all are
/// refused.
struct Tried {
  bool changes = false, refused = true;
};

Tried tried(const Option& row, const ScheduleOptions& before) {
  auto values = other_values(row);
  if (row.field == &before.pieces) values = {"6:0.5,12:0.2"};
  Tried result;
  for (const auto& value : values) {
    auto options = before;
    OptionTable table("dimred test", "");
    add_options(table, options);
    table.give(row.name, value, "test");
    const auto curve = curve_of(options);
    if (curve.empty()) continue;
    result.changes = result.changes || curve != curve_of(before);
    result.refused = result.refused && is_refused(table);
  }
  return result;
}

TEST(Schedule, OptionsThatAKindIgnoresAreRefusedAndNoOthers) {
  for (const auto& [name, kind] : schedule_kinds()) {
    for (const double warmup : {0, 2}) {
      auto options = usual(kind, warmup);
      if (curve_of(options).empty()) continue;  // a kind with a warm-up of its own
      OptionTable table("dimred test", "");
      add_options(table, options);
      for (const auto& row : table.rows()) {
        if (row.needs.test == Condition::Test::always) continue;
        const auto [changes, refused] = tried(row, options);
        EXPECT_EQ(refused, !changes) << name << ' ' << warmup << ' ' << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace dimred::schedules
