#include <cmath>

#include "schedules/families.h"

// PaddlePaddle/PLSC, plsc/entry.py.
namespace dimred::schedules {
namespace {

/// base = learning_rate * global_batch_size / 1024, times factor at each milestone; the warm-up
/// goes from learning_rate, unscaled, to the base (so with less than 1024 samples it falls).
double plsc_rate(const ScheduleOptions& options, const Times& times) {
  const double start = options.learning_rate;
  const double base = start * options.global_batch_size / 1024;
  if (times.step < times.warmup) return start + (base - start) * (times.step / times.warmup);
  return base * std::pow(options.factor, milestones_passed(options, times));
}

}  // namespace

namespace families {
Family plsc() { return {.rate = plsc_rate, .depends_on_length = false, .own_warmup = true}; }
}  // namespace families

}  // namespace dimred::schedules
