#include <algorithm>
#include <cmath>
#include <numbers>

#include "schedules/families.h"

// get_lr of MindSpore's ResNet (models/official/cv/ResNet/src/lr_generator.py). Its `liner` and
// `poly` are `linear` and `polynomial` with power 2 and end 0. It has no rate beyond its T steps:
// here the one of the last step stays.
namespace dimred::schedules {
namespace {

double at_most_last(const Times& times) { return std::min(times.step, times.total - 1); }

/// x 0.1 at each of these parts of T.
double tenths(const ScheduleOptions& options,
              const Times& times,
              std::initializer_list<double> parts) {
  const auto passed = std::ranges::count_if(
      parts, [&](double part) { return at_most_last(times) >= part * times.total; });
  return options.learning_rate * std::pow(0.1, passed);
}

/// After a linear warm-up.
double steps_rate(const ScheduleOptions& options, const Times& times) {
  return tenths(options, times, {0.3, 0.6, 0.8});
}

/// Quirks: 5e-5 from 0.9 T, whatever the base; no warm-up.
double step_rate(const ScheduleOptions& options, const Times& times) {
  if (at_most_last(times) >= 0.9 * times.total) return 0.00005;
  return tenths(options, times, {0.2, 0.5, 0.7});
}

/// Quirks: the warm-up is a step ahead (i + 1); the cosine counts from step 0, not from the
/// warm-up's end, and makes 0.94 of half a turn in T - w steps; a linear decay multiplies it; 1e-5
/// is added.
double cosine_rate(const ScheduleOptions& options, const Times& times) {
  const double i = at_most_last(times);
  const double start = options.start_learning_rate, base = options.learning_rate;
  if (i < times.warmup) return start + (base - start) / times.warmup * (i + 1);
  const double decay_steps = times.total - times.warmup;
  const double linear_decay = (times.total - i) / decay_steps;
  const double cosine_decay = 0.5 * (1 + std::cos(std::numbers::pi * 2 * 0.47 * i / decay_steps));
  return base * (linear_decay * cosine_decay + 0.00001);
}

}  // namespace

namespace families {
Family mindspore_steps() { return {.rate = steps_rate}; }
Family mindspore_step() { return {.rate = step_rate}; }
Family mindspore_cosine() { return {.rate = cosine_rate, .own_warmup = true}; }
}  // namespace families

}  // namespace dimred::schedules
