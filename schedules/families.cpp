#include "schedules/families.h"

#include <numbers>

namespace dimred::schedules {

double warmed_up(const ScheduleOptions& options, const Times& times) {
  const double base = options.learning_rate;
  if (times.step >= times.warmup) return base;
  if (options.warmup_scheme == WarmupScheme::t2t)
    return base * std::pow(std::exp(std::log(0.01) / times.warmup), times.warmup - times.step);
  const double start = options.start_learning_rate;
  return start + (base - start) * times.step / times.warmup;
}

double milestones_passed(const ScheduleOptions& options, const Times& times) {
  const double now = options.steps.milestones ? times.step : times.step / times.steps_per_epoch;
  const auto& milestones = options.milestones;
  const auto passed = std::ranges::upper_bound(milestones, now);
  return passed - milestones.begin();
}

}  // namespace dimred::schedules

// The schedules that nobody published first; schedule.h has their formulas.
namespace dimred::schedules::families {
namespace {

/// From the base to the end rate; `left` goes from 1 to 0.
double falling(const ScheduleOptions& options, double left) {
  const double end = options.end_learning_rate;
  return end + (options.learning_rate - end) * left;
}

double polynomial_rate(const ScheduleOptions& options, const Times& times) {
  double progress = times.progress();
  if (options.decay_scheme != DecayScheme::none) {
    const double start = decay_times(options.decay_scheme, times.total).start;
    progress = std::clamp((times.step - start) / (times.total - start), 0.0, 1.0);
  }
  return falling(options, std::pow(1 - progress, options.power));
}

}  // namespace

Family constant() {
  return {
      .rate = [](const ScheduleOptions& options, const Times&) { return options.learning_rate; },
      .depends_on_length = false};
}

Family linear() {
  return {.rate = [](const ScheduleOptions& options, const Times& times) {
    return options.learning_rate -
           (options.learning_rate - options.end_learning_rate) * times.progress();
  }};
}

Family cosine() {
  return {.rate = [](const ScheduleOptions& options, const Times& times) {
    return falling(options, (1 + std::cos(std::numbers::pi * times.progress())) / 2);
  }};
}

Family polynomial() { return {.rate = polynomial_rate}; }

Family step() {
  return {.rate =
              [](const ScheduleOptions& options, const Times& times) {
                return options.learning_rate *
                       std::pow(options.factor, milestones_passed(options, times));
              },
          .depends_on_length = false};
}

}  // namespace dimred::schedules::families
