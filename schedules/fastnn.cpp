#include <algorithm>
#include <cmath>

#include "schedules/families.h"

// FastNN's learning rates (alibaba/FastNN, images/utils/optimizer_utils.py). Its `fixed` is
// `constant` without a warm-up, and without a decay scheme its decay starts where training stops:
// `constant`, too. As published, a decay that starts within the warm-up multiplies it.
namespace dimred::schedules {

DecayTimes decay_times(DecayScheme scheme, double total) {
  const double share = scheme == DecayScheme::luong234 ? total * 2 / 3 : total / 2;
  const double start = std::floor(share);
  const double count = scheme == DecayScheme::luong5 ? 5 : scheme == DecayScheme::luong10 ? 10 : 4;
  const DecayTimes times{start, std::floor((total - start) / count)};
  needs(times.interval >= 1,
        total,
        "a schedule long enough for {} decays after step {}, as decay_scheme asks",
        count,
        start);
  return times;
}

namespace {

/// base * factor^floor((i - start) / interval) from the start on: staircase. FastNN stops at T;
/// here the rate of the last step stays.
double exponential_rate(const ScheduleOptions& options, const Times& times) {
  const double base = warmed_up(options, times);
  const auto [start, interval] = decay_times(options.decay_scheme, times.total);
  if (times.step < start) return base;
  const double since = std::min(times.step, times.total - 1) - start;
  return base * std::pow(options.factor, std::floor(since / interval));
}

/// Quirk: to the end rate in a straight line within ONE interval, a fifth, tenth or quarter of what
/// is left, and there it stays.
double one_interval_rate(const ScheduleOptions& options, const Times& times) {
  const double base = warmed_up(options, times);
  const auto [start, interval] = decay_times(options.decay_scheme, times.total);
  if (times.step < start) return base;
  const double part = std::min(times.step - start, interval) / interval;
  return (base - options.end_learning_rate) * (1 - part) + options.end_learning_rate;
}

}  // namespace

namespace families {
Family exponential() { return {.rate = exponential_rate, .own_warmup = true}; }
Family fastnn_polynomial() { return {.rate = one_interval_rate, .own_warmup = true}; }
}  // namespace families

}  // namespace dimred::schedules
