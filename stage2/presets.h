#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schedules/schedule.h"
#include "stage2/armijo.h"
#include "stage2/bfgs.h"

namespace dimred::stage2 {

/// What lies outside the subspace: m <- gamma m + r, r = g - P' g_k.
struct ResidualOptions {
  double gamma = 0.9;    // [0, 1)
  double alpha = 0.001;  // >= 0; weight of m in the step
  bool joint = true;     // searched together, w + t (P'd - alpha m); else w + t P'd, then - alpha m
};

/// What a search without an accepted trial does.
enum class OnFailure {
  no_step,     // t = 0, H as before the step; the next step has no pair to learn from
  restore,     // t = 0, and H, s and the last g_k as before: the next step offers the old s again
  last_trial,  // the last t tried is used; s keeps the value of an earlier step
  next_trial,  // the t after the last one tried, rho^trials, is used and stored in s
};

/// Weights that stage 2 starts from; `preset` in the options means the preset's own. soup: greedy
/// soup of the snapshots by validation accuracy.
enum class Start { preset, last, mean, soup, first, file };

/// What P is made of where no file is given (pca/kind.h); none: no subspace, only what lies
/// outside.
enum class BasisKind { pca, span, random, shuffled, none };

/// How a batch is spent (method.h).
enum class MethodKind { quasi_newton, psgd, sgd };
inline std::vector<std::pair<std::string, MethodKind>> method_names() {
  return {{"quasi-newton", MethodKind::quasi_newton},
          {"psgd", MethodKind::psgd},
          {"sgd", MethodKind::sgd}};
}
inline std::string name_of(MethodKind kind) {
  return method_names().at(static_cast<std::size_t>(kind)).first;
}

/// Averages of the iterates: uniform over the steps after `from`, or exponential.
enum class AverageKind { none, uniform, ema };
struct AverageOptions {
  AverageKind kind = AverageKind::none;
  double from = 0.5;    // [0, 1): part of the budget before the first iterate that counts
  double decay = 0.99;  // [0, 1): of ema, a <- decay a + (1 - decay) w
};

/// Step sizes of the first-order methods.
struct RateOptions {
  double learning_rate = 0.05;  // > 0
  double momentum = 0.9;        // [0, 1)
};

/// What is added to the batch's loss, in the gradient and in every trial.
struct PenaltyOptions {
  double weight_decay = 0;  // >= 0: + weight_decay |w|^2 / 2 over the weights that decay
  double sam_radius = 0;    // >= 0: the loss at w + radius g / |g|; Foret et al. 2021
};

/// Where y = change of g_k comes from.
enum class Curvature {
  between,  // this step's batch and the last one's, as published: noise and curvature together
  same,     // the same batch before and after the step, Powell-damped: one more gradient a step
};

struct StepOptions {
  ArmijoOptions search;
  BfgsOptions bfgs;
  ResidualOptions residual;
  OnFailure on_failure = OnFailure::no_step;
  Curvature curvature = Curvature::between;
};

/// Throws std::invalid_argument for a value out of range.
void validate(const StepOptions& options);

/// A named set of constants. Names and numbers of published presets never change.
struct Preset {
  std::string name;
  std::string summary;
  MethodKind method = MethodKind::quasi_newton;
  StepOptions step;   // psgd uses its residual part
  RateOptions rates;  // of psgd and sgd
  schedules::ScheduleKind schedule = schedules::ScheduleKind::constant;  // of their rate
  PenaltyOptions penalty;
  AverageOptions average;
  BasisKind basis = BasisKind::pca;
  std::int64_t components = 32;  // of pca and random
  Start start = Start::last;
};

/// robust (ours, default), mindspore-latest, mindspore-first, dldr, psgd, twa, sgd, swa, ema.
const std::vector<Preset>& presets();

/// Throws std::invalid_argument for an unknown name, with the nearest.
const Preset& preset(const std::string& name);

/// Throws std::invalid_argument for a value out of range.
void validate(const RateOptions& options);
void validate(const PenaltyOptions& options);
void validate(const AverageOptions& options);

}  // namespace dimred::stage2
