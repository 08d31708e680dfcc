#include <initializer_list>

#include "checkpoints/artifact.h"
#include "checkpoints/output.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/trainer_commands.h"
#include "engine/evaluate.h"
#include "launch/rank_info.h"
#include "run/run_folder.h"
#include "serving/export.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/result_file.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct ExportOptions : SavedOptions {
  fs::path output;
  bool score = true;
};

nlohmann::ordered_json source_of(const ExportOptions& options,
                                 const engine::Setup& setup,
                                 const run::Weights& weights) {
  nlohmann::ordered_json source;
  source["run"] = checkpoints::run_of(options.weights).string();
  source["weights"] = weights.source;
  source["weights_digest"] = digest(weights.values);  // file order
  source["epoch"] = weights.epoch;
  source["step"] = weights.step;
  source["parameters"] = setup.model.flat.layout.global_size;
  source["layout_hash"] = setup.model.flat.layout.hash;
  source["training_data"] = setup.data.train->description();
  return source;
}

int write(const ExportOptions& options, engine::Setup& setup, const run::Weights& weights) {
  require(!weights.other_normalisation,
          "[export] needs the mean and deviation of the weights' training data, but {}; give the "
          "place of that data with --data",
          weights.note);
  auto source = source_of(options, setup, weights);
  if (options.score && !setup.data.test)
    print("no test set found, so the export has no test accuracy\n");
  if (options.score && setup.data.test) {
    const auto score = engine::finite_score(setup, *setup.data.test, "test");
    source["test_accuracy"] = score.accuracy;
    source["test_loss"] = score.loss;
    source["test_samples"] = score.samples;
  }
  const auto& model = options.common.model;
  const auto folder = serving::export_network(
      setup, serving::signature_of(setup, model, source), options.output, run::module_of(model));
  print(formatted("-> {}\n", folder));
  return exit_success;
}

/// An export is computed in float32, whatever these rows say.
void refuse_precision(const OptionTable& table, const engine::ModelOptions& model) {
  for (const auto* field :
       std::initializer_list<const void*>{&model.precision, &model.amp_allow, &model.amp_deny}) {
    const auto& row = table.at(field);
    require(row.origin != OptionOrigin::flag || row.value() == "float32",
            "[export] {} has no effect, because programs that read an export compute in float32; "
            "leave out --{}",
            row.name,
            row.name);
  }
}

fs::path default_output(const fs::path& weights) {
  const auto run = checkpoints::run_of(weights);
  require(!run.empty(),
          "[export] needs --output FOLDER for weights outside of a run folder, received {}",
          weights);
  return run / "export";
}

/// Versions beside the weights of a checkpoint's own folder would make the folder unreadable.
void require_apart(const ExportOptions& options) {
  const auto folder = checkpoints::name_of(fs::absolute(options.weights));
  std::error_code none;
  if (fs::is_directory(folder) && fs::equivalent(folder, options.output, none) &&
      checkpoints::look(folder).kind == checkpoints::ArtifactKind::folder)
    checkpoints::require_outside("export", options.output / "1", folder);
}

}  // namespace

int export_command(const std::vector<std::string>& arguments) {
  ExportOptions options;
  OptionTable table("dimred export",
                    "write weights and a signature into a new version folder, for other programs");
  table.group("Export", {.essential = true});
  add_saved_options(table, options);
  table
      .add("output",
           &options.output,
           "folder for versions 1, 2, ... (default: export/ in the weights' run)")
      .role(OptionRole::output);
  table.add("score", &options.score, "also write the test accuracy into signature.json");
  add_network_options(table, options.common);
  if (printed_help(table, arguments)) return exit_success;
  refuse_precision(table, options.common.model);
  adopt_run_of(table, options);
  if (options.output.empty()) options.output = default_output(options.weights);
  require_outside_runs(options.output, "--output");
  require_apart(options);
  const auto ranks = launch::discover().size;
  require(ranks == 1, "[export] needs one rank, received {} ranks", ranks);
  run::resolve(options.common, ranks, table);
  // As those who read the export will compute.
  options.common.model.precision = engine::PrecisionChoice::float32;
  return with_saved_network(table, options, [&](engine::Setup& setup, const auto& weights) {
    return write(options, setup, weights);
  });
}

}  // namespace dimred::commands
