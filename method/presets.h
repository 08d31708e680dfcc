#pragma once

#include <optional>
#include <string>
#include <vector>

#include "method/average.h"
#include "method/options.h"
#include "pca/kinds.h"

namespace dimred::method {

/// Weights that stage 2 starts from.
enum class Start { last, mean, first, file };

/// The rows of P where no file is given; nullopt: no subspace, only the residual step remains.
using BasisKind = std::optional<pca::Kind>;

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
  BasisKind basis = pca::Kind::pca;
  std::int64_t components = 32;  // of pca and random
  Start start = Start::last;
  std::int64_t start_latest = 0;  // of start = mean: the latest snapshots; 0: all
};

/// robust (ours), robust-mean (default), mindspore-latest, mindspore-first, dldr, psgd, twa, sgd,
/// swa, ema, schedule-free.
const std::vector<Preset>& presets();

/// Throws std::invalid_argument for an unknown name, with the nearest.
const Preset& preset(const std::string& name);

}  // namespace dimred::method
