#pragma once

#include <string>
#include <utility>
#include <vector>

#include "method/inverse_hessian.h"
#include "method/line_search.h"
#include "schedules/schedule.h"

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

/// Origin of y, the change of g_k.
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

}  // namespace dimred::method
