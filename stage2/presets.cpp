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
  throw std::invalid_argument(
      concat("[stage2] preset needs robust, mindspore-latest, mindspore-first or dldr, received ",
             wanted,
             near ? "; did you mean " + *near + "?" : ""));
}

}  // namespace dimred::stage2
