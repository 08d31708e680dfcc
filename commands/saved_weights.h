#pragma once

#include <filesystem>
#include <string>

#include "support/options.h"
#include "training/weights/weights.h"

// Weights that a run, or anything else, has left, for commands that use a network as it is.
namespace dimred::commands {

/// The rows --weights (also a bare argument) and --recalibrate_batchnorm.
void add_saved_options(OptionTable& table, std::filesystem::path& weights, bool& recalibrate);

/// Takes the data, model and loss of the run that `weights` belongs to over into `common`, and
/// prints what is set otherwise. Without a run the table's own options count. Throws
/// std::invalid_argument when the path is empty or not there.
void adopt_run_of(OptionTable& table,
                  const std::filesystem::path& weights,
                  training::CommonOptions& common,
                  const std::string& command);

/// An export says itself what a run's options would: throws std::invalid_argument when one is set.
void refuse_run_options(const OptionTable& table,
                        const std::filesystem::path& folder,
                        const std::string& command);

/// Loads a run, state, snapshot, weight file, or the mean of a folder of snapshots (whose
/// BatchNorm is recalibrated, if `recalibrate`) into the setup's network. Returns them with a
/// `source` that says so. All ranks must find the same.
training::Weights load_saved(training::Setup& setup,
                             const std::filesystem::path& weights,
                             bool recalibrate);

/// Lines about the loaded weights and anything that a person should know of them.
std::string lines_of(const training::Weights& weights);

}  // namespace dimred::commands
