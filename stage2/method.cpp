#include "stage2/method.h"

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace dimred::stage2 {

double factor(Decay decay, double progress) {
  schedules::ScheduleOptions options{.kind = decay, .learning_rate = 1, .total_epochs = 1};
  if (decay == Decay::step) options.milestones = {0.5, 0.75};
  return schedules::learning_rate(options, progress, 1);
}

bool has_length(const MethodOptions& options) {
  const bool rate = options.kind != MethodKind::quasi_newton && options.schedule != Decay::constant;
  return rate || (options.kind != MethodKind::sgd && options.alpha_schedule != Decay::constant);
}

std::unique_ptr<Method> make_method(const MethodOptions& options, Place place) {
  validate(options.step);
  validate(options.rates);
  switch (options.kind) {
    case MethodKind::quasi_newton:
      return quasi_newton(std::move(place), options.step, options.alpha_schedule);
    case MethodKind::psgd:
      return projected_sgd(std::move(place),
                           options.rates,
                           options.step.residual,
                           options.schedule,
                           options.alpha_schedule);
    case MethodKind::sgd:
      return sgd(std::move(place), options.rates, options.schedule);
  }
  check(false, "unknown MethodKind");
  return nullptr;
}

}  // namespace dimred::stage2
