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

DecayFactor::DecayFactor(Decay decay, double first_drop)
    : schedule_{.kind = decay, .learning_rate = 1, .total_epochs = 1} {
  if (decay != Decay::step) return;
  constexpr double last_drop = 0.75;
  schedule_.milestones = {first_drop};
  if (first_drop < last_drop) schedule_.milestones.push_back(last_drop);
}

double DecayFactor::operator()(double progress) const {
  return schedules::learning_rate(schedule_, progress, 1);
}

bool depends_on_length(const MethodOptions& options) {
  const bool rate = options.kind != MethodKind::quasi_newton && options.schedule != Decay::constant;
  return rate || (options.kind != MethodKind::sgd && options.alpha_schedule != Decay::constant);
}

std::span<const double> entry_of(const Method::StateDict& saved,
                                 const std::string& name,
                                 std::size_t count) {
  const auto found = saved.find(name);
  require(
      found != saved.end(), "[method] the state comes from another method: {} is missing", name);
  require(found->second.size() == count,
          "[method] {} of the state has {} numbers, but the present n_component needs {}",
          name,
          found->second.size(),
          count);
  return found->second;
}

}  // namespace dimred::method
