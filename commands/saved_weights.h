#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/run_config.h"
#include "options/options.h"
#include "run/options.h"
#include "run/weights/weights.h"

// Weights that a run, or anything else, has left, for commands that use a network as it is.
namespace dimred::commands {

struct SavedOptions {
  run::CommonOptions common;
  std::filesystem::path weights;
  bool recalibrate_batchnorm = true;
  bool recalibration_asked = false;  // by the option: also of weights that are no mean
};

/// The rows --weights (also a bare argument) and --recalibrate_batchnorm.
void add_saved_options(OptionTable& table, SavedOptions& saved);

/// The rows of a command that uses the network alone, on no other ranks: machine, data, model,
/// head. None of the loss: held-out losses have no smoothing.
void add_network_options(OptionTable& table, run::CommonOptions& common);

/// The part of the run's data that a command wants: its samples, or classes and normalisation
/// alone.
enum class DataUse { samples, description };

/// Takes the data, model and head of the run that the weights belong to over, and prints what is
/// set otherwise. Without a run the table's own options count, which is said where they are the
/// defaults. The run's manifest stands in for a description of data that are gone. Throws
/// std::invalid_argument when the path is empty or not there, or samples are wanted that are gone.
void adopt_run_of(OptionTable& table, SavedOptions& saved, DataUse use = DataUse::description);

/// Says which network is meant where neither the run of `weights` nor an option names it.
void print_default_network(const OptionTable& table,
                           const checkpoints::OpenedRun& run,
                           const std::filesystem::path& weights,
                           const engine::ModelOptions& options);

/// Takes over the mean and deviation that the weights were trained with, whatever the training set
/// has become; without effect where nothing records them or a flag chooses the preprocessing.
void adopt_normalisation(const OptionTable& table,
                         const checkpoints::OpenedRun& run,
                         const std::filesystem::path& weights,
                         engine::DataOptions& data);

/// Throws std::invalid_argument when `path` is a run folder without a state, and says which process
/// trains there.
void require_state(const std::filesystem::path& path, const std::string& command);

/// An export says itself what a run's options would: throws std::invalid_argument when one is set.
void refuse_run_options(const OptionTable& table, const std::filesystem::path& folder);

/// Whether the run's manifest describes the data as well as the data themselves, for a command that
/// needs no sample: no flag says other data, and BatchNorm is not recalibrated.
bool describes_data(const OptionTable& table, const SavedOptions& saved);

/// Loads a run, state, snapshot, weight file, or the mean of a folder of snapshots (whose BatchNorm
/// is recalibrated, unless that is turned off; that of other weights if the option asks for it)
/// into a network, and prints what was loaded and what a person should know of it, as the weights'
/// `source` says; then `work` with both, among the ranks. All ranks must find the same.
int with_saved_network(const OptionTable& table,
                       SavedOptions& saved,
                       const std::function<int(engine::Setup&, const run::Weights&)>& work);

}  // namespace dimred::commands
