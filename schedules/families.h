#pragma once

#include <algorithm>
#include <cmath>

#include "schedules/schedule.h"
#include "support/errors.h"

// A schedule, and parts that the files of this room share; nothing outside it needs them.
namespace dimred::schedules {

/// A moment and the schedule's lengths, all in steps.
struct Times {
  double step = 0;
  double warmup = 0;
  double total = 0;
  double steps_per_epoch = 1;
  /// The part of the steps behind the warm-up that is over, in [0, 1].
  double progress() const { return std::min(1.0, (step - warmup) / (total - warmup)); }
};

/// A schedule. Adding one is a file that defines families::NAME(), and its line in schedules.inc.
struct Family {
  double (*rate)(const ScheduleOptions& options, const Times& times);  // at times.step
  bool depends_on_length = true;                                       // on times.total
  bool own_warmup = false;  // `rate` is asked during the warm-up, too, in place of warmed_up()
};

/// The rate that warm-up alone gives: learning_rate behind it.
double warmed_up(const ScheduleOptions& options, const Times& times);

template <class... Values>
void needs(bool holds,
           double received,
           std::type_identity_t<FormatString<sizeof...(Values)>> rule,
           const Values&... values) {
  if (holds && std::isfinite(received)) return;
  require(false, "[schedules] needs {}, received {}", formatted(rule, values...), received);
}

/// How many milestones are behind.
double milestones_passed(const ScheduleOptions& options, const Times& times);

/// First step of a decay scheme's decay, and the steps between two times of it.
struct DecayTimes {
  double start = 0;
  double interval = 0;
};
/// Throws std::invalid_argument where `total` is too short for one step between two times.
DecayTimes decay_times(DecayScheme scheme, double total);

}  // namespace dimred::schedules
