#include "schedules/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "schedules/families.h"
#include "schedules/piecewise.h"

namespace dimred::schedules {
namespace {

double warmed_up(const ScheduleOptions& options, const Times& times) {
  const double base = options.learning_rate;
  if (times.step >= times.warmup) return base;
  if (options.warmup_scheme == WarmupScheme::t2t)
    return base * std::pow(std::exp(std::log(0.01) / times.warmup), times.warmup - times.step);
  const double start = options.start_learning_rate;
  return start + (base - start) * times.step / times.warmup;
}

double polynomial(const ScheduleOptions& options, const Times& times, double progress) {
  const double base = options.learning_rate, end = options.end_learning_rate;
  if (options.decay_scheme != DecayScheme::none) {
    const double start = decay_times(options.decay_scheme, times.total).start;
    progress = std::clamp((times.step - start) / (times.total - start), 0.0, 1.0);
  }
  return end + (base - end) * std::pow(1 - progress, options.power);
}

double after_warmup(const ScheduleOptions& options, const Times& times) {
  const double base = options.learning_rate, end = options.end_learning_rate;
  const double progress = std::min(1.0, (times.step - times.warmup) / (times.total - times.warmup));
  switch (options.kind) {
    case ScheduleKind::constant:
      return base;
    case ScheduleKind::linear:
      return base - (base - end) * progress;
    case ScheduleKind::cosine:
      return end + (base - end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::polynomial:
      return polynomial(options, times, progress);
    case ScheduleKind::step:
      return base * std::pow(options.factor, milestones_passed(options, times));
    case ScheduleKind::mindspore_steps:
      return mindspore_steps(options, times);
    default:
      check(false, "unknown ScheduleKind");
      return 0;
  }
}

/// The kinds with a warm-up of their own, or a decay that multiplies it, come first.
double unannealed(const ScheduleOptions& options, const Times& times) {
  switch (options.kind) {
    case ScheduleKind::exponential:
      return exponential(options, times, warmed_up(options, times));
    case ScheduleKind::fastnn_polynomial:
      return fastnn_polynomial(options, times, warmed_up(options, times));
    case ScheduleKind::mindspore_step:
      return mindspore_step(options, times);
    case ScheduleKind::mindspore_cosine:
      return mindspore_cosine(options, times);
    case ScheduleKind::plsc:
      return plsc(options, times);
    case ScheduleKind::piecewise:
      return piecewise_rate(parse_pieces(options.pieces), times.step / times.steps_per_epoch);
    default:
      return times.step < times.warmup ? warmed_up(options, times) : after_warmup(options, times);
  }
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

double milestones_passed(const ScheduleOptions& options, const Times& times) {
  const double now = options.steps.milestones ? times.step : times.step / times.steps_per_epoch;
  const auto& milestones = options.milestones;
  const auto passed = std::upper_bound(milestones.begin(), milestones.end(), now);
  return static_cast<double>(passed - milestones.begin());
}

const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds() {
  static const std::vector<std::pair<std::string, ScheduleKind>> kinds = {
      {"constant", ScheduleKind::constant},
      {"linear", ScheduleKind::linear},
      {"cosine", ScheduleKind::cosine},
      {"polynomial", ScheduleKind::polynomial},
      {"step", ScheduleKind::step},
      {"exponential", ScheduleKind::exponential},
      {"piecewise", ScheduleKind::piecewise},
      {"fastnn-polynomial", ScheduleKind::fastnn_polynomial},
      {"mindspore-steps", ScheduleKind::mindspore_steps},
      {"mindspore-step", ScheduleKind::mindspore_step},
      {"mindspore-cosine", ScheduleKind::mindspore_cosine},
      {"plsc", ScheduleKind::plsc}};
  return kinds;
}

bool depends_on_length(ScheduleKind kind) {
  return kind != ScheduleKind::constant && kind != ScheduleKind::step &&
         kind != ScheduleKind::plsc && kind != ScheduleKind::piecewise;
}

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
