#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "pca/basis.h"
#include "pca/kinds.h"
#include "pca/source.h"
#include "stage2/train.h"
#include "support/options.h"
#include "training/input/train_on.h"

namespace dimred::stage2 {

/// The user's options; unset constants come from the preset.
struct Options {
  std::filesystem::path checkpoint;  // run folder, state, snapshot or safetensors
  std::filesystem::path pca_mat;     // reuse this matrix; empty: run the PCA first
  std::filesystem::path snapshots;   // empty: <run folder of checkpoint>/snapshots
  pca::BasisDtype basis_dtype = pca::BasisDtype::float32;  // of P in memory
  DeviceAlgebra device_algebra = DeviceAlgebra::aten;
  std::string preset = "robust-mean";
  std::optional<std::int64_t> n_component;
  std::optional<method::BasisKind> basis;
  pca::Blocks basis_blocks = pca::Blocks::whole;
  std::optional<std::int64_t> basis_seed;       // of random and shuffled; unset: the run's seed
  pca::SnapshotRange range;                     // of the snapshots that the matrix is made of
  method::Start start = method::Start::preset;  // of the preset
  std::optional<std::int64_t> start_latest;     // of mean and soup: the latest snapshots; 0: all
  std::filesystem::path start_file;             // with start = file
  training::TrainOn train_on = training::TrainOn::train;
  double budget = 0;

  // The method's options; unset: the preset's.
  std::optional<method::MethodKind> method;
  std::optional<std::string> update_rule;
  std::optional<method::Decay> schedule, alpha_schedule;
  std::optional<method::Curvature> curvature;
  std::optional<bool> weight_decay_all;
  std::optional<method::AverageKind> average;
  std::map<std::string, std::optional<double>> numbers;  // of method::for_each_hyperparameter
  std::map<std::string, std::optional<std::int64_t>> whole_numbers;  // the integers among them
  bool trial_batchnorm_moving = false;  // published quirk: running statistics move in trials
  bool recalibrate_batchnorm = true;
  std::int64_t keep_checkpoints = 2;
};

void add_options(OptionTable& table, Options& options);

/// Every constant resolved: the preset's, where the user set none. Also fills the unset fields of
/// `options`, so that config.toml shows them. Throws std::invalid_argument for a bad combination.
struct Resolved {
  TrainOptions train;  // but for epochs
  method::BasisKind basis = method::BasisKind::pca;
  std::int64_t components = 32;  // 0: as many as the snapshots span
  method::Start start = method::Start::last;
};
Resolved resolve(Options& options);

}  // namespace dimred::stage2
