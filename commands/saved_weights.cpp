#include "commands/saved_weights.h"

#include <span>

#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "distributed/agreement.h"
#include "support/digest.h"
#include "support/errors.h"
#include "training/evaluate.h"
#include "training/weights/frozen.h"
#include "training/weights/weights.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// A folder of snapshots is averaged; everything else is loaded as it is.
training::Weights load(const training::Setup& setup, const fs::path& path) {
  const bool list = checkpoints::is_snapshot_list(path);
  const bool one = (!fs::is_directory(path) && !list) || checkpoints::is_state(path) ||
                   fs::exists(path / "checkpoints");
  return one ? training::load_weights(setup, path) : training::mean_of_snapshots(setup, path);
}

}  // namespace

void add_saved_options(OptionTable& table, fs::path& weights, bool& recalibrate) {
  table.add("weights",
            &weights,
            "a run folder, a state, a snapshot, a weight file (safetensors, PyTorch's .pt, "
            "MindSpore's .ckpt), or a folder of snapshots or a list of them (.txt): their mean");
  table.positional("weights");
  table.add("recalibrate_batchnorm",
            &recalibrate,
            "estimate BatchNorm's running statistics anew for a mean");
}

void adopt_run_of(OptionTable& table,
                  const fs::path& weights,
                  training::CommonOptions& common,
                  const std::string& command) {
  require(!weights.empty(), "[{}] needs --weights FILE or FOLDER", command);
  require(fs::exists(weights), "[{}] no such file or folder: {}", command, weights.string());
  const auto run = checkpoints::open_run(weights);
  for (const auto& line : adopt_run(table, run, common, "not as the weights' run: "))
    print(line + "\n");
}

void refuse_run_options(const OptionTable& table,
                        const fs::path& folder,
                        const std::string& command) {
  for (const auto& row : table.rows()) {
    const bool of_run =
        row.group == "Data" || row.group == "Model" || row.group == "Loss" || row.group == "Head";
    require(!of_run || row.origin == OptionOrigin::default_value,
            "[{}] {} is an export, whose signature.json says how images are prepared: --{} has no "
            "place",
            command,
            folder.string(),
            row.name);
  }
}

std::string lines_of(const training::Weights& weights) {
  return weights.source + (weights.note.empty() ? "\n" : formatted("\n{}\n", weights.note));
}

training::Weights load_saved(training::Setup& setup, const fs::path& path, bool recalibrate) {
  const bool list = checkpoints::is_snapshot_list(path);
  training::load_frozen(setup, list ? training::snapshot_files(path).front() : path);
  auto weights = load(setup, path);
  distributed::require_agreement(
      *setup.communicator,
      {{"the weights", formatted("{} {}", digest_of(weights.values), digest_of(weights.buffers))}});
  training::apply(setup.model, weights);
  if (weights.needs_recalibration && recalibrate && setup.model.batchnorm_layers > 0) {
    training::recalibrate_batchnorm(setup);
    weights.source += ", BatchNorm recalibrated";
  }
  return weights;
}

}  // namespace dimred::commands
