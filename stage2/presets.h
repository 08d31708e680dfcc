#pragma once

#include <string>
#include <vector>

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

/// Weights that stage 2 starts from; `preset` in the options means the preset's own.
enum class Start { preset, last, mean, first, file };

struct StepOptions {
  ArmijoOptions search;
  BfgsOptions bfgs;
  ResidualOptions residual;
  OnFailure on_failure = OnFailure::no_step;
};

/// Throws std::invalid_argument for a value out of range.
void validate(const StepOptions& options);

/// A named set of constants. Names and numbers of published presets never change.
struct Preset {
  std::string name;
  std::string summary;
  StepOptions step;
  std::int64_t components = 32;
  Start start = Start::last;
};

/// robust (ours, default), mindspore-latest, mindspore-first, dldr.
const std::vector<Preset>& presets();

/// Throws std::invalid_argument for an unknown name, with the nearest.
const Preset& preset(const std::string& name);

}  // namespace dimred::stage2
