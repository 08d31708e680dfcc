#include "commands/saved_weights.h"

#include <span>

#include "checkpoints/artifact.h"
#include "checkpoints/folder_lock.h"
#include "checkpoints/run_config.h"
#include "checkpoints/state.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "models/margin.h"
#include "support/agreement.h"
#include "support/digest.h"
#include "support/errors.h"
#include "training/evaluate.h"
#include "training/make_setup.h"
#include "training/weights/frozen_file.h"
#include "training/weights/weights.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

}  // namespace

void add_saved_options(OptionTable& table, SavedOptions& saved) {
  table
      .add(
          "weights",
          &saved.weights,
          "run, state, snapshot or weight file; or a folder or list (.txt) of snapshots to average")
      .essential()
      .positional();
  table.add("recalibrate_batchnorm",
            &saved.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics again for averaged weights");
}

void add_network_options(OptionTable& table, training::CommonOptions& common) {
  training::add_compute_options(table, common.run);
  training::add_data_options(table, common.data);
  training::add_model_options(table, common.model);
  models::add_options(table, common.head);
  add_store_options(table);
}

void adopt_run_of(OptionTable& table,
                  SavedOptions& saved,
                  const std::string& command,
                  DataUse use) {
  require(!saved.weights.empty(), "[{}] needs --weights FILE or FOLDER", command);
  require(checkpoints::look(saved.weights).kind != checkpoints::ArtifactKind::missing,
          "[{}] no such file or folder: {}",
          command,
          saved.weights);
  require_state(saved.weights, command);
  const auto run = checkpoints::open_run(saved.weights);
  for (const auto& line : adopt_run(table, run, saved.common, "not as the weights' run: "))
    print(line + "\n");
  const auto missing = missing_data(table, saved.common.data);
  if (missing.option.empty()) return;
  if (use == DataUse::samples || run.folder.empty()) require_data(table, saved.common.data);
  saved.common.data.described_by = run.folder;
  print(
      formatted("the run's data is not at {} any more: classes and normalisation are those of {}\n",
                missing.path,
                run.folder / "manifest.json"));
}

void require_state(const fs::path& path, const std::string& command) {
  if (!fs::exists(path / "config.toml") || !checkpoints::states_of(path).empty() ||
      fs::exists(path / "final.h5"))
    return;
  const auto process = checkpoints::holder_of(path);
  throw std::invalid_argument(formatted(
      "[{}] {} has no state yet; {}",
      command,
      path.string(),
      process.empty()
          ? "nobody trains in it, so the same command goes on or starts again; its snapshots or "
            "final.h5, if there are any, can be named instead"
          : formatted("process {} is training in it, and the first epoch's end writes "
                      "one",
                      process)));
}

void refuse_run_options(const OptionTable& table,
                        const fs::path& folder,
                        const std::string& command) {
  for (const auto& row : table.rows()) {
    require(
        !row.persists || !row.was_set(),
        "[{}] {} is an export, and its signature.json says how images are prepared; leave out --{}",
        command,
        folder,
        row.name);
  }
}

training::Weights load_saved(training::Setup& setup, const SavedOptions& saved) {
  const bool several = checkpoints::look(saved.weights).is_several();
  training::load_frozen(
      setup,
      several ? training::latest_members(saved.weights).members.front().path : saved.weights);
  auto weights = several ? training::mean_of_series(setup, saved.weights)
                         : training::load_weights(setup, saved.weights);
  require_agreement(
      *setup.communicator,
      {{"the weights", formatted("{} {}", digest_of(weights.values), digest_of(weights.buffers))}});
  training::apply(setup.model, weights);
  if (weights.needs_recalibration && saved.recalibrate_batchnorm &&
      setup.model.batchnorm_layers > 0) {
    require(setup.data.train->size() > 0,
            "[weights] a mean of snapshots needs the run's data to estimate BatchNorm's "
            "statistics, but the data is gone; give its place with --data PATH, or keep the "
            "statistics with --recalibrate_batchnorm false");
    training::recalibrate_batchnorm(setup);
    weights.source += ", BatchNorm recalibrated";
  }
  print(weights.source + (weights.note.empty() ? "\n" : formatted("\n{}\n", weights.note)));
  return weights;
}

int with_saved_network(const OptionTable& table,
                       SavedOptions& saved,
                       const std::function<int(training::Setup&)>& work) {
  return with_ranks(table, saved.common, [&](const auto& ranks) {
    auto setup = training::make_setup(saved.common, ranks);
    load_saved(setup, saved);
    return work(setup);
  });
}

}  // namespace dimred::commands
