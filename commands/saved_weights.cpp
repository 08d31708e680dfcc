#include "commands/saved_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/artifact.h"
#include "checkpoints/folder_lock.h"
#include "checkpoints/run_config.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/series.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "engine/evaluate.h"
#include "models/margin.h"
#include "run/make_setup.h"
#include "run/weights/frozen_file.h"
#include "run/weights/weights.h"
#include "support/agreement.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// Returns what a state, a snapshot, the first of several snapshots or an export, or else the run's
/// manifest, records of the training; null: nothing.
nlohmann::json training_record(const checkpoints::OpenedRun& run, const fs::path& weights) {
  using checkpoints::ArtifactKind;
  const auto artifact = checkpoints::look(weights);
  const auto kind = artifact.kind;
  if (kind == ArtifactKind::state) return checkpoints::read_state_header(weights).at("scalars");
  if (kind == ArtifactKind::snapshot) {
    const auto json = checkpoints::read_snapshot_info(weights).run_json;
    return json.empty() ? nlohmann::json() : parse_json(json, formatted("[weights] {}", weights));
  }
  if (run.folder.empty() && artifact.is_several()) {
    const auto first = checkpoints::members({weights}, "weights").members.front().weights;
    return checkpoints::look(first).is_several() ? nlohmann::json() : training_record(run, first);
  }
  const auto signature =
      (fs::is_directory(weights) ? weights : weights.parent_path()) / "signature.json";
  if (run.folder.empty() && fs::is_regular_file(signature)) {  // an export outside of its run
    const auto json = parse_json(checkpoints::read_text(signature), signature.string());
    return json.is_object() ? json.value("preprocessing", nlohmann::json()) : nlohmann::json();
  }
  const auto manifest = run.folder / "manifest.json";
  if (run.folder.empty() || !fs::is_regular_file(manifest)) return {};
  const auto json =
      parse_ordered_json(checkpoints::read_text(manifest), formatted("[data] {}", manifest));
  if (json.is_object() && json.contains("digest")) checkpoints::require_digest(json, manifest);
  return nlohmann::json(json);
}

/// Refuses flags that only the recalibration of BatchNorm uses, where there is none.
void refuse_idle_options(const OptionTable& table, const SavedOptions& saved) {
  const bool several = checkpoints::look(saved.weights).is_several();
  if (saved.recalibration_asked || (several && saved.recalibrate_batchnorm)) return;
  const auto& data = saved.common.data;
  const bool splits = data.validation_fraction > 0 && !data.split_seed;
  for (const auto* name : {"pad", "flip", "colour_jitter", "seed"}) {
    const auto* row = table.row(name);
    const bool given = row != nullptr && row->origin == OptionOrigin::flag &&
                       row->show() != row->default_value && !(row->name == "seed" && splits);
    require(!given,
            "[{}] {} has no effect: it needs weights whose BatchNorm statistics are estimated "
            "again (a mean of snapshots, or --recalibrate_batchnorm=true)",
            table.scope(),
            name);
  }
}

}  // namespace

void print_default_network(const OptionTable& table,
                           const checkpoints::OpenedRun& run,
                           const fs::path& weights,
                           const engine::ModelOptions& options) {
  const auto& model = options.model;
  if (!run.config.empty() || table.was_set(&model)) return;
  print(
      formatted("no run folder records the network of {}, so this is the default network, {}; give "
                "another network with --{}\n",
                weights,
                model,
                table.at(&model).name));
}

void adopt_normalisation(const OptionTable& table,
                         const checkpoints::OpenedRun& run,
                         const fs::path& weights,
                         engine::DataOptions& data) {
  if (table.at(&data.preprocessing_name).origin == OptionOrigin::flag) return;
  const auto record = training_record(run, weights);
  if (!record.is_object() || !record.contains("mean") || !record.contains("deviation")) return;
  record["mean"].get_to(data.trained_mean);
  record["deviation"].get_to(data.trained_deviation);
}

void add_saved_options(OptionTable& table, SavedOptions& saved) {
  table
      .add("weights",
           &saved.weights,
           "run, state, snapshot, weight file, checkpoint folder or index; or a folder, list "
           "(.txt) or "
           "pattern of weights to average")
      .essential()
      .positional();
  table.add("recalibrate_batchnorm",
            &saved.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics again for averaged weights; explicit true: "
            "for any weights");
}

void add_network_options(OptionTable& table, run::CommonOptions& common) {
  run::add_compute_options(table, common.run);
  run::add_data_options(table, common.data);
  run::add_model_options(table, common.model);
  models::add_options(table, common.head);
  add_store_options(table);
}

void adopt_run_of(OptionTable& table, SavedOptions& saved, DataUse use) {
  require(!saved.weights.empty(), "[{}] needs --weights FILE or FOLDER", table.scope());
  require(checkpoints::look(saved.weights).kind != checkpoints::ArtifactKind::missing,
          "[{}] no such file or folder: {}",
          table.scope(),
          saved.weights);
  require_state(saved.weights, table.scope());
  const auto run = checkpoints::open_run(saved.weights);
  for (const auto& line : adopt_run(table, run, saved.common, "unlike the run of the weights: "))
    print(line + "\n");
  adopt_normalisation(table, run, saved.weights, saved.common.data);
  const auto& recalibrate = saved.recalibrate_batchnorm;
  saved.recalibration_asked = table.was_set(&recalibrate) && recalibrate;
  refuse_idle_options(table, saved);
  print_default_network(table, run, saved.weights, saved.common.model);
  if (const auto missing = missing_data(table, saved.common.data); !missing.option.empty()) {
    if (use == DataUse::samples || run.folder.empty()) require_data(table, saved.common.data);
    saved.common.described_by = run.folder;
    print(formatted("the run's data is no longer at {}; classes and normalisation come from {}\n",
                    missing.path,
                    run.folder / "manifest.json"));
  }
  print_default_data(table, run, saved.weights, saved.common.data);
}

void require_state(const fs::path& path, const std::string& command) {
  if (!fs::exists(path / "config.toml") || !checkpoints::states_of(path).empty() ||
      fs::exists(path / "final.h5"))
    return;
  const auto process = checkpoints::holder_of(path);
  throw std::invalid_argument(
      formatted("[{}] {} has no state yet; {}",
                command,
                path.string(),
                process.empty() ? "no process trains in this folder; run the same training command "
                                  "again, or give snapshots or final.h5 instead"
                                : formatted("process {} is training in this folder and writes the "
                                            "first state at the end of the first epoch",
                                            process)));
}

void refuse_run_options(const OptionTable& table, const fs::path& folder) {
  for (const auto& row : table.rows()) {
    require(!row.persists || !row.was_set(),
            "[{}] {} is an export, and signature.json of the export fixes the preparation of "
            "images; leave out --{}",
            table.scope(),
            folder,
            row.name);
  }
}

bool describes_data(const OptionTable& table, const SavedOptions& saved) {
  const auto run = checkpoints::run_of(saved.weights);
  const auto manifest = run / "manifest.json";
  const bool flagged = std::ranges::any_of(table.rows(), [](const Option& row) {
    return row.persists && row.origin == OptionOrigin::flag;
  });
  const bool needs_samples =
      saved.recalibration_asked || checkpoints::look(saved.weights).is_several();
  if (run.empty() || !fs::is_regular_file(manifest) || flagged || needs_samples) return false;
  const auto json = parse_json(checkpoints::read_text(manifest), formatted("[data] {}", manifest));
  const auto known = {"class_names", "image_shape", "mean", "deviation", "train_data", "digest"};
  return std::ranges::all_of(known, [&](const char* key) { return json.contains(key); });
}

namespace {

run::Weights load_saved(engine::Setup& setup, const SavedOptions& saved) {
  const bool several = checkpoints::look(saved.weights).is_several();
  run::load_frozen(
      setup, several ? run::latest_members(saved.weights).members.front().path : saved.weights);
  auto weights =
      several ? run::mean_of_series(setup, saved.weights) : run::load_weights(setup, saved.weights);
  weights.needs_recalibration |= saved.recalibration_asked;
  require_agreement(
      *setup.communicator,
      {{"the weights", formatted("{} {}", digest_of(weights.values), digest_of(weights.buffers))}});
  run::apply(setup.model, weights);
  if (weights.needs_recalibration && saved.recalibrate_batchnorm &&
      setup.model.batchnorm_layers > 0) {
    require(setup.data.train->size() > 0,
            "[weights] BatchNorm's statistics can only be estimated from the run's data, but the "
            "data is gone; give the place of the data with --data PATH, or keep the statistics "
            "with --recalibrate_batchnorm false");
    engine::recalibrate_batchnorm(setup);
    weights.source += ", BatchNorm recalibrated";
  }
  print(weights.source + (weights.note.empty() ? "\n" : formatted("\n{}\n", weights.note)));
  return weights;
}

}  // namespace

int with_saved_network(const OptionTable& table,
                       SavedOptions& saved,
                       const std::function<int(engine::Setup&, const run::Weights&)>& work) {
  return with_ranks(table, saved.common, [&](const auto& ranks) {
    auto setup = run::make_setup(saved.common, ranks);
    const auto weights = load_saved(setup, saved);
    return work(setup, weights);
  });
}

}  // namespace dimred::commands
