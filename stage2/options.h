#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "method/presets.h"
#include "options/options.h"
#include "pca/basis.h"
#include "pca/kinds.h"
#include "pca/source.h"
#include "stage2/train.h"

namespace dimred::stage2 {

/// The user's options.
struct Options {
  std::filesystem::path checkpoint;  // run folder, state, snapshot or safetensors
  std::filesystem::path pca_mat;     // reuse this matrix; empty: run the PCA first
  std::filesystem::path snapshots;   // empty: <run folder of checkpoint>/snapshots
  pca::BasisDtype basis_dtype = pca::BasisDtype::float32;  // of P in memory
  DeviceAlgebra device_algebra = DeviceAlgebra::aten;
  std::string preset = "robust-mean";
  method::Preset constants = method::preset("robust-mean");  // the preset's where none is given
  std::optional<std::int64_t> n_component;  // unset: the preset's, or all that the basis has
  pca::Blocks basis_blocks = pca::Blocks::whole;
  std::optional<std::int64_t> basis_seed;    // of random and shuffled; unset: the run's seed
  pca::SnapshotRange range;                  // of the snapshots that the matrix is made of
  std::optional<std::int64_t> start_latest;  // of mean: the latest snapshots; 0: all
  std::filesystem::path start_file;          // with start = file
  double budget = 0;
  bool trial_batchnorm_moving = false;  // published quirk: running statistics move in trials
  bool recalibrate_batchnorm = true;
  std::int64_t keep_checkpoints = 2;
};

void add_options(OptionTable& table, Options& options);

/// Fills the unset fields of `options`, so that config.toml shows them (n_component stays unset
/// where it is as many as the snapshots span). Throws std::invalid_argument for a bad combination.
void resolve(Options& options, const OptionTable& table);

/// All that training needs of them but epochs, their steps and hooks.
TrainOptions train_options(const Options& options);

}  // namespace dimred::stage2
