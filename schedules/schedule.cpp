#include "schedules/schedule.h"

#include <algorithm>

#include "schedules/families.h"

namespace dimred::schedules::families {
#define DIMRED_SCHEDULE(name) Family name();
#include "schedules/list.inc"
#undef DIMRED_SCHEDULE
}  // namespace dimred::schedules::families

namespace dimred::schedules {
namespace {

/// The families stand in the order of ScheduleKind.
const Family& family_of(ScheduleKind kind) {
  static const std::vector<Family> all = {
#define DIMRED_SCHEDULE(name) families::name(),
#include "schedules/list.inc"
#undef DIMRED_SCHEDULE
  };
  return all.at(static_cast<std::size_t>(kind));
}

double unannealed(const ScheduleOptions& options, const Times& times) {
  const auto& family = family_of(options.kind);
  const bool warming = times.step < times.warmup && !family.own_warmup;
  return warming ? warmed_up(options, times) : family.rate(options, times);
}

Times times_of(const ScheduleOptions& options, double step, double steps_per_epoch) {
  const auto& steps = options.steps;
  const Times times{
      .step = step,
      .warmup = steps.warmup > 0 ? steps.warmup : options.warmup_epochs * steps_per_epoch,
      .total = steps.total > 0 ? steps.total : options.total_epochs * steps_per_epoch,
      .steps_per_epoch = steps_per_epoch};
  needs(times.warmup < times.total || times.warmup == 0,
        times.warmup,
        "a warm-up shorter than the schedule of {} steps",
        times.total);
  return times;
}

}  // namespace

const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds() {
  static const auto kinds = [] {
    std::vector<std::pair<std::string, ScheduleKind>> all = {
#define DIMRED_SCHEDULE(name) {#name, ScheduleKind::name},
#include "schedules/list.inc"
#undef DIMRED_SCHEDULE
    };
    for (auto& [name, kind] : all) std::ranges::replace(name, '_', '-');
    return all;
  }();
  return kinds;
}

bool depends_on_length(ScheduleKind kind) { return family_of(kind).depends_on_length; }

ScheduleOptions with_total(ScheduleOptions options, double epochs) {
  if (options.total_epochs == 0 && options.steps.total == 0) options.total_epochs = epochs;
  if (options.anneal_from_epoch >= 0 && options.anneal_to_epoch < 0)
    options.anneal_to_epoch = epochs;
  validate(options);
  return options;
}

double learning_rate(const ScheduleOptions& options, double step, double steps_per_epoch) {
  validate(options);
  needs(step >= 0, step, "step >= 0");
  needs(steps_per_epoch >= 1, steps_per_epoch, "steps_per_epoch >= 1");
  const double from = options.anneal_from_epoch, to = options.anneal_to_epoch;
  const double epoch = step / steps_per_epoch;
  const auto times = times_of(options, step, steps_per_epoch);
  if (from < 0 || epoch <= from) return unannealed(options, times);
  const double remaining = std::max(0.0, (to - epoch) / (to - from));
  auto then = times;
  then.step = from * steps_per_epoch;
  return unannealed(options, then) * remaining;
}

}  // namespace dimred::schedules
