#include "stage2/presets.h"

#include "support/errors.h"
#include "support/options.h"

namespace dimred::stage2 {

void validate(const StepOptions& options) {
  validate(options.search);
  validate(options.bfgs);
  const auto& residual = options.residual;
  require(residual.gamma >= 0 && residual.gamma < 1,
          "stage2::residual",
          "gamma needs [0, 1), received ",
          residual.gamma);
  require(residual.alpha >= 0, "stage2::residual", "alpha needs >= 0, received ", residual.alpha);
}

void validate(const RateOptions& options) {
  constexpr auto place = "stage2";
  require(options.learning_rate > 0,
          place,
          "learning_rate needs > 0, received ",
          options.learning_rate);
  require(options.momentum >= 0 && options.momentum < 1,
          place,
          "momentum needs [0, 1), received ",
          options.momentum);
}

void validate(const PenaltyOptions& options) {
  constexpr auto place = "stage2";
  require(
      options.weight_decay >= 0, place, "weight_decay needs >= 0, received ", options.weight_decay);
  require(options.sam_radius >= 0, place, "sam_radius needs >= 0, received ", options.sam_radius);
}

void validate(const AverageOptions& options) {
  constexpr auto place = "stage2";
  require(options.from >= 0 && options.from < 1,
          place,
          "average_from needs [0, 1), received ",
          options.from);
  require(options.decay >= 0 && options.decay < 1,
          place,
          "ema_decay needs [0, 1), received ",
          options.decay);
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {.name = "robust",
       .summary = "one searched direction for both parts, guarded updates, no step on failure",
       .step = {.search = {.rho = 0.55, .sigma = 0.4, .trials = 20, .strict = false},
                .bfgs = {.curvature_floor = 1e-20, .relative_curvature_floor = 0.1},
                .residual = {.gamma = 0.9, .alpha = 0.005, .joint = true},
                .on_failure = OnFailure::no_step}},
      // MindSpore boost/dim_reduce.py, newest version seen: two trials, a failed search takes no
      // step in the subspace but still the residual one, and restores H, s and g_k.
      {.name = "mindspore-latest",
       .summary = "MindSpore's latest dim_reduce: 2 trials, failed search = residual step only",
       .step = {.search = {.rho = 0.55, .sigma = 0.4, .trials = 2, .strict = true},
                .bfgs = {},
                .residual = {.gamma = 0.9, .alpha = 0.001, .joint = false},
                .on_failure = OnFailure::restore}},
      // Its first version: three trials, the last t is used on failure while s keeps its old value.
      {.name = "mindspore-first",
       .summary = "MindSpore's first dim_reduce: 3 trials, failed search = last trial, stale s",
       .step = {.search = {.rho = 0.55, .sigma = 0.4, .trials = 3, .strict = true},
                .bfgs = {},
                .residual = {.gamma = 0.9, .alpha = 0.001, .joint = false},
                .on_failure = OnFailure::last_trial}},
      // nblt/DLDR train_pbfgs.py: starts from the first snapshot, 40 components, no residual part.
      {.name = "dldr",
       .summary = "DLDR's P-BFGS: 20 trials, failed search = one contraction more, no residual, "
                  "start = first",
       .step = {.search = {.rho = 0.4, .sigma = 0.4, .trials = 20, .strict = true},
                .bfgs = {},
                .residual = {.gamma = 0.9, .alpha = 0, .joint = false},
                .on_failure = OnFailure::next_trial},
       .components = 40,
       .start = Start::first},
      // nblt/DLDR train_psgd.py: 40 epochs of batch 128 with milestones 30 and 50.
      {.name = "psgd",
       .summary = "DLDR's P-SGD: momentum SGD in the subspace, no residual, start = first",
       .method = MethodKind::psgd,
       .step = {.residual = {.gamma = 0.9, .alpha = 0, .joint = false}},
       .rates = {.learning_rate = 1, .momentum = 0.9},
       .schedule = schedules::ScheduleKind::step,
       .components = 40,
       .start = Start::first},
      // nblt/TWA train_twa.py, CIFAR: learning rate 2, a tenth at half and at three quarters.
      {.name = "twa",
       .summary = "TWA: momentum SGD in the span of the snapshots, start = their mean",
       .method = MethodKind::psgd,
       .step = {.residual = {.gamma = 0.9, .alpha = 0, .joint = false}},
       .rates = {.learning_rate = 2, .momentum = 0.9},
       .schedule = schedules::ScheduleKind::step,
       .penalty = {.weight_decay = 1e-5},
       .basis = BasisKind::span,
       .start = Start::mean},
      {.name = "sgd",
       .summary = "baseline: momentum SGD in all weights, its rate annealed to zero",
       .method = MethodKind::sgd,
       .rates = {.learning_rate = 0.05, .momentum = 0.9},
       .schedule = schedules::ScheduleKind::linear,
       .penalty = {.weight_decay = 5e-4},
       .basis = BasisKind::none},
      // timgaripov/swa: constant rate .05; its mean is of epochs, this one of steps.
      {.name = "swa",
       .summary = "baseline: momentum SGD at a constant rate, mean of its iterates",
       .method = MethodKind::sgd,
       .rates = {.learning_rate = 0.05, .momentum = 0.9},
       .penalty = {.weight_decay = 5e-4},
       .average = {.kind = AverageKind::uniform, .from = 0},
       .basis = BasisKind::none},
      {.name = "ema",
       .summary = "baseline: momentum SGD at a constant rate, exponential mean of its iterates",
       .method = MethodKind::sgd,
       .rates = {.learning_rate = 0.05, .momentum = 0.9},
       .penalty = {.weight_decay = 5e-4},
       .average = {.kind = AverageKind::ema},
       .basis = BasisKind::none},
  };
  return list;
}

const Preset& preset(const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& candidate : presets()) {
    if (candidate.name == wanted) return candidate;
    names.push_back(candidate.name);
  }
  const auto near = nearest(wanted, names);
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  throw std::invalid_argument(concat("[stage2] preset needs one of ",
                                     all,
                                     "; received ",
                                     wanted,
                                     near ? "; did you mean " + *near + "?" : ""));
}

}  // namespace dimred::stage2
