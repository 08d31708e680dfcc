#include "method/method.h"

#include "support/errors.h"
#include "support/scope_exit.h"

namespace dimred::method {

StepReport Method::step(SubspaceSpace& space, double progress) {
  try {
    return descend(space, progress);
  } catch (...) {
    undo_after_error([&] { space.restore(); });
    throw;
  }
}

double factor(Decay decay, double progress, double first_drop) {
  schedules::ScheduleOptions options{.kind = decay, .learning_rate = 1, .total_epochs = 1};
  constexpr double last_drop = 0.75;
  if (decay == Decay::step) options.milestones = {first_drop};
  if (decay == Decay::step && first_drop < last_drop) options.milestones.push_back(last_drop);
  return schedules::learning_rate(options, progress, 1);
}

bool depends_on_length(const MethodOptions& options) {
  const bool rate = options.kind != MethodKind::quasi_newton && options.schedule != Decay::constant;
  return rate || (options.kind != MethodKind::sgd && options.alpha_schedule != Decay::constant);
}

std::span<const double> entry_of(const Method::StateDict& saved,
                                 const std::string& name,
                                 std::size_t count) {
  const auto found = saved.find(name);
  require(found != saved.end(), "[method] the state comes from another method: it has no {}", name);
  require(found->second.size() == count,
          "[method] the state's {} has {} numbers, but n_component now needs {}",
          name,
          found->second.size(),
          count);
  return found->second;
}

}  // namespace dimred::method
