#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/column_ranges.h"
#include "training/setup.h"

namespace dimred::training {

/// Weights of a network in file order, from whatever file held them.
struct Weights {
  std::vector<float> values;   // [file_size], this rank's
  std::vector<float> buffers;  // empty when the file had none
  std::vector<std::int64_t> counters;
  std::int64_t epoch = 0, step = 0;  // as of a snapshot; 0 where the file does not say
  std::string layout_json;           // of the file; empty when it carries none
  std::string run_json;              // what the file records of its run; empty: it has none
  std::string kind = "raw";          // raw | mean, as curve.csv says
  bool needs_recalibration = false;  // averaged: BatchNorm's running statistics do not fit
  bool other_normalisation = false;  // than in training
  std::string note;    // what a person should know: trained on other samples, tensors left out
  std::string source;  // for messages: "snapshot runs/a/snapshots/snapshot_00000938.h5"
};

/// Which columns of the weights of that layout are read; nothing: all.
using ChooseRanges = std::function<checkpoints::ColumnRanges(const std::string& layout_json)>;

/// A snapshot .h5, a state folder or a run folder, of any network. A run is final.h5 where it has
/// come to its end, else its newest valid state.
Weights read_own(const std::filesystem::path& path, const ChooseRanges& choose);

/// What read_own() reads, or a weight file of another program (checkpoints/weights_file.h) whose
/// names are the network's parameters and buffers; needs the same frozen part, which load_frozen()
/// has put into the setup. The classes that are recorded must be those of the setup's data; other
/// samples, or another mean or deviation of them, are noted. Throws std::invalid_argument when
/// missing, of an unknown kind, of another layout (names the first entry that differs) or other
/// classes; std::runtime_error when damaged.
Weights load_weights(const Setup& setup, const std::filesystem::path& path);

/// Mean of the `latest` snapshots of a folder (0: all), summed as a merge is (merge/row_sums.h);
/// buffers are the last snapshot's, so recalibrate BatchNorm afterwards. Throws
/// std::invalid_argument when there are fewer.
Weights mean_of_snapshots(const Setup& setup,
                          const std::filesystem::path& folder,
                          std::int64_t latest = 0);

/// Copies into the setup's network.
void apply(Model& model, const Weights& weights);

/// The `latest` snapshots of a folder or a list (.txt) in order (0: all). Throws
/// std::invalid_argument when there are none, or fewer, std::runtime_error when some of a run's are
/// gone (checkpoints/snapshot_list.h).
std::vector<std::filesystem::path> snapshot_files(const std::filesystem::path& folder,
                                                  std::int64_t latest = 0);

}  // namespace dimred::training
