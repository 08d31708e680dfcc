#pragma once

#include <string>
#include <utility>
#include <vector>

#include "method/inverse_hessian.h"
#include "method/line_search.h"
#include "schedules/schedule.h"
#include "support/option_values.h"

namespace dimred::method {

/// How a batch is spent: line-searched quasi-Newton descent, SGD in the subspace (P-SGD), or SGD in
/// all weights.
enum class MethodKind { quasi_newton, psgd, sgd };
std::vector<std::pair<std::string, MethodKind>> method_names();

/// The residual step, outside the subspace: m <- gamma m + r, r = g - P' g_k.
struct ResidualOptions {
  double gamma = 0.9;    // [0, 1)
  double alpha = 0.001;  // >= 0; weight of m in the step; 0: the step stays in the subspace
  bool joint = true;     // searched together, w + t (P'd - alpha m); else w + t P'd, then - alpha m
};

/// How a step ends whose search accepted no trial; named after who published it.
enum class FailedSearch {
  no_step,           // ours: t = 0, H as before; the next step has no pair to learn from
  mindspore_latest,  // t = 0, and H, s and the last g_k as before: the old pair is offered again
  mindspore_first,   // the last t tried is used; s keeps the value of an earlier step
  dldr,              // the t after the last one tried, rho^trials, is used and kept in s
};

/// Where y = change of g_k comes from.
enum class Curvature {
  between,  // this step's batch and the last one's, as published: noise and curvature together
  same,     // the same batch before and after the step, Powell-damped: one more gradient a step
};

/// Step sizes of the first-order methods: v <- momentum v + g, w <- w - learning_rate v.
struct RateOptions {
  double learning_rate = 0.05;  // > 0
  double momentum = 0.9;        // [0, 1)
};

/// How a rate falls as the budget is spent.
using Decay = schedules::ScheduleKind;

struct MethodOptions {
  MethodKind kind = MethodKind::quasi_newton;
  ArmijoOptions search;
  CurvatureFloors floors;
  std::string update_rule = "bfgs";  // of update_rules()
  Curvature curvature = Curvature::between;
  ResidualOptions residual;  // also of psgd
  FailedSearch failed_search = FailedSearch::no_step;
  RateOptions rates;                       // of psgd and sgd
  Decay schedule = Decay::constant;        // of their learning rate
  double first_drop = 0.5;                 // part of the run, of schedule = step
  Decay alpha_schedule = Decay::constant;  // of the residual part's alpha
};

/// Calls `visit(name, field, range, help)` for each number that a user may set: the one place where
/// its name, range and meaning stand. Defaults are the fields' and the presets'.
template <class Visit>
void for_each_hyperparameter(MethodOptions& o, const Visit& visit) {
  const Range part{.low = 0, .high = 1, .high_open = true};
  visit(
      "rho", o.search.rho, between_open(0, 1), "contraction of the step size after a failed trial");
  visit("sigma",
        o.search.sigma,
        between_open(0, 1),
        "sufficient decrease: loss <= loss + sigma t slope");
  visit("trials", o.search.trials, between(1, 100), "step sizes tried: 1, rho, rho^2, ...");
  visit("gamma", o.residual.gamma, part, "residual momentum: m <- gamma m + r");
  visit("alpha", o.residual.alpha, at_least(0), "weight of the residual momentum in the step");
  visit("curvature_floor", o.floors.absolute, at_least(0), "an update of H needs s'y above this");
  visit("relative_curvature_floor", o.floors.relative, part, "and s'y / (|s| |y|) above this");
  visit("learning_rate", o.rates.learning_rate, positive(), "step size of psgd and sgd");
  visit("momentum", o.rates.momentum, part, "momentum of psgd and sgd");
  visit("first_drop",
        o.first_drop,
        part,
        "part of the run at which schedule = step first falls to a tenth, and again at 3/4");
}

/// Throws std::invalid_argument("[method] rho needs in (0, 1), received 2") for the first number
/// out of range, or an unknown update rule.
void validate(MethodOptions options);

/// For validate() of structs that have a for_each_hyperparameter.
void require_in_range(const char* name, double value, const Range& range);

}  // namespace dimred::method
