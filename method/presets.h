#pragma once

#include <string>
#include <vector>

#include "method/average.h"
#include "method/options.h"

namespace dimred::method {

/// Weights that stage 2 starts from; `preset` in the options means the preset's own. soup: greedy
/// soup of the snapshots by validation accuracy.
enum class Start { preset, last, mean, soup, first, file };

/// The origin of P where no file is given (pca/kind.h); none: no subspace, only the residual step
/// remains.
enum class BasisKind { pca, span, random, shuffled, none };

/// Penalties that are added to the batch's loss, in the gradient and in every trial.
struct PenaltyOptions {
  double weight_decay = 0;        // >= 0: + weight_decay |w|^2 / 2 over the weights that decay
  bool weight_decay_all = false;  // of biases and BatchNorm, too
  double sam_radius = 0;          // >= 0: the loss at w + radius g / |g|; Foret et al. 2021
};

/// A composition of direction, search and residual with its constants. Names and numbers of
/// published presets never change.
struct Preset {
  std::string name;
  std::string summary;
  MethodOptions method;
  PenaltyOptions penalty;
  AverageOptions average;
  BasisKind basis = BasisKind::pca;
  std::int64_t components = 32;  // of pca and random
  Start start = Start::last;
  std::int64_t start_latest = 0;  // of start = mean: the latest snapshots; 0: all
};

/// robust (ours), robust-mean (default), mindspore-latest, mindspore-first, dldr, psgd, twa, sgd,
/// swa, ema, schedule-free.
const std::vector<Preset>& presets();

/// Throws std::invalid_argument for an unknown name, with the nearest.
const Preset& preset(const std::string& name);

/// As for_each_hyperparameter of MethodOptions.
template <class Visit>
void for_each_hyperparameter(PenaltyOptions& penalty, const Visit& visit) {
  visit("weight_decay",
        penalty.weight_decay,
        at_least(0),
        "added to loss and gradient of every method");
  visit("sam_radius",
        penalty.sam_radius,
        at_least(0),
        "the loss at w + radius g / |g| instead (SAM); one more gradient");
}

/// All numbers of a preset: its method's first.
template <class Visit>
void for_each_hyperparameter(Preset& preset, const Visit& visit) {
  const Range part{.low = 0, .high = 1, .high_open = true};
  for_each_hyperparameter(preset.method, visit);
  for_each_hyperparameter(preset.penalty, visit);
  visit("average_from",
        preset.average.from,
        part,
        "part of the run before the first iterate that counts");
  visit("ema_decay", preset.average.decay, part, "decay of average = ema in a step");
}

/// Throws std::invalid_argument for the first number out of range.
void validate(Preset preset);

}  // namespace dimred::method
