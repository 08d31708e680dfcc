#include "method/effects.h"

#include <algorithm>
#include <vector>

namespace dimred::method {
namespace {

/// Options that work only where something holds.
struct Dependence {
  std::vector<std::string_view> options;
  bool holds;
  std::string_view needed;
};

std::vector<Dependence> dependences(const MethodOptions& method,
                                    const PenaltyOptions& penalty,
                                    const AverageOptions& average) {
  using enum MethodKind;
  const auto kind = method.kind;
  const bool steps = method.schedule == Decay::step || method.alpha_schedule == Decay::step;
  return {{{"rho",
            "sigma",
            "trials",
            "update_rule",
            "curvature",
            "curvature_floor",
            "relative_curvature_floor"},
           kind == quasi_newton,
           "method = quasi-newton"},
          {{"learning_rate", "momentum", "schedule"}, kind != quasi_newton, "method = psgd or sgd"},
          {{"alpha", "gamma", "alpha_schedule"}, kind != sgd, "method = quasi-newton or psgd"},
          {{"first_drop"}, steps, "schedule or alpha_schedule = step"},
          {{"weight_decay_of"}, penalty.weight_decay > 0, "weight_decay"},
          {{"average_from"},
           average.kind == AverageKind::uniform || average.kind == AverageKind::ema,
           "average = uniform or ema"},
          {{"ema_decay"}, average.kind == AverageKind::ema, "average = ema"}};
}

}  // namespace

std::string_view needed_for_effect(std::string_view option,
                                   const MethodOptions& method,
                                   const PenaltyOptions& penalty,
                                   const AverageOptions& average) {
  for (const auto& [options, holds, needed] : dependences(method, penalty, average))
    if (!holds && std::ranges::find(options, option) != options.end()) return needed;
  return {};
}

}  // namespace dimred::method
