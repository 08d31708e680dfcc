#pragma once

#include <cmath>

#include "schedules/schedule.h"
#include "support/errors.h"

// Parts that the files of this room share; nothing outside it needs them.
namespace dimred::schedules {

/// A moment and the schedule's lengths, all in steps.
struct Times {
  double step = 0;
  double warmup = 0;
  double total = 0;
  double steps_per_epoch = 1;
};

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

// The published families. `base` is the rate at this step that warm-up alone gives.
double exponential(const ScheduleOptions& options, const Times& times, double base);
double fastnn_polynomial(const ScheduleOptions& options, const Times& times, double base);
double mindspore_steps(const ScheduleOptions& options, const Times& times);
double mindspore_step(const ScheduleOptions& options, const Times& times);
double mindspore_cosine(const ScheduleOptions& options, const Times& times);
double plsc(const ScheduleOptions& options, const Times& times);

}  // namespace dimred::schedules
