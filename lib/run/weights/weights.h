#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/artifact.h"
#include "checkpoints/column_ranges.h"
#include "checkpoints/series.h"
#include "engine/setup.h"

namespace dimred::run {

/// Weights of a network in file order, from whatever file held them.
struct Weights {
  std::vector<float> values;   // [file_size], this rank's
  std::vector<float> buffers;  // empty when the file had none
  std::vector<std::int64_t> counters;
  std::int64_t epoch = 0, step = 0;  // as of a snapshot; 0 where the file does not say
  std::string layout_json;           // of the file; empty when it carries none
  std::string run_json;              // what the file records of its run; empty: it has none
  std::vector<std::string> runs;     // of a mean: the run_json of one member of each run
  std::string averaging;             // checkpoints::Checkpoint::averaging
  std::string kind = "raw";          // raw | mean, as curve.csv says
  bool needs_recalibration = false;  // averaged: BatchNorm's running statistics do not fit
  bool other_normalisation = false;  // than in training
  std::string note;    // what a person should know: trained on other samples, tensors left out
  std::string source;  // for messages: "snapshot runs/a/snapshots/snapshot_00000938.h5"
};

/// Which columns of the weights of that layout are read; nothing: all.
using ChooseRanges = std::function<checkpoints::ColumnRanges(const std::string& layout_json)>;

/// A snapshot .h5, a state folder or a run folder, of any network. A run is final.h5 where it has
/// come to its end, else its newest valid state. Throws std::invalid_argument for what is none.
Weights read_own(const checkpoints::Artifact& artifact, const ChooseRanges& choose);

/// Loads the weights of read_own(), or other programs' weights (a file, a checkpoint's folder, an
/// index) whose names are the network's parameters and buffers; needs the same frozen part, which
/// load_frozen() has put into the setup. The classes that are recorded must be those of the setup's
/// data; other samples, or another mean or deviation of them, are noted. Throws
/// std::invalid_argument when missing, of an unknown kind, of another layout (names the first entry
/// that differs) or other classes; std::runtime_error when damaged.
Weights load_weights(const engine::Setup& setup, const std::filesystem::path& path);

/// Mean of the `latest` members of a series (0: all), summed as a merge is (merge/row_sums.h);
/// buffers are the last one's, so recalibrate BatchNorm afterwards. Throws as latest_members().
Weights mean_of_series(const engine::Setup& setup,
                       const std::filesystem::path& path,
                       std::int64_t latest = 0);

/// Copies into the setup's network. Throws std::invalid_argument for another model's buffers, and
/// as require_variances(), unless BatchNorm's statistics do not fit anyway.
void apply(engine::Model& model, const Weights& weights);

/// The `latest` members (0: all) of what lies at a path (checkpoints::members), by their steps.
/// Throws as that does, and std::invalid_argument when there are fewer.
checkpoints::Series latest_members(const std::filesystem::path& path, std::int64_t latest = 0);

}  // namespace dimred::run
