#include <iomanip>
#include <span>

#include "checkpoints/state.h"
#include "commands/ranks.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "distributed/agreement.h"
#include "support/digest.h"
#include "support/errors.h"
#include "training/evaluate.h"
#include "training/weights.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Options {
  training::CommonOptions common;
  fs::path weights;
  bool recalibrate_batchnorm = true;
};

/// A folder of snapshots is averaged; everything else is loaded as it is.
training::Weights load(const training::Setup& setup, const fs::path& path) {
  const bool one =
      !fs::is_directory(path) || checkpoints::is_state(path) || fs::exists(path / "checkpoints");
  return one ? training::load_weights(setup, path) : training::mean_of_snapshots(setup, path);
}

void adopt(OptionTable& table, Options& options) {
  const auto& weights = options.weights;
  require(!weights.empty(), "evaluate", "needs --weights FILE or FOLDER");
  require(fs::exists(weights), "evaluate", "no such file or folder: ", weights.string());
  const auto run = run_of(weights);
  if (run.empty()) return;
  for (const auto& line : adopt_run(table, run, options.common))
    print("not as the weights' run: " + line + "\n");
}

std::string line(const char* what, const char* set, const training::Score& score) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << what << "  loss " << score.loss << "  accuracy "
      << std::setprecision(2) << 100 * score.accuracy << " %  (" << score.samples << " samples)\n";
  if (score.bad > 0) out << training::bad_text(score, set) << '\n';
  return out.str();
}

int score(const Options& options, const distributed::Ranks& ranks) {
  auto setup = training::make_setup(options.common, ranks);
  const auto weights = load(setup, options.weights);
  const auto digest_of = [](const std::vector<float>& values) {
    return digest(std::as_bytes(std::span(values)));
  };
  distributed::require_agreement(
      *ranks.communicator,
      {{"the weights", concat(digest_of(weights.values), ' ', digest_of(weights.buffers))}});
  training::apply(setup, weights);
  const bool recalibrate =
      weights.needs_recalibration && options.recalibrate_batchnorm && setup.batchnorm_layers > 0;
  if (recalibrate) training::recalibrate_batchnorm(setup);
  print(weights.source + (recalibrate ? ", BatchNorm recalibrated\n" : "\n"));
  if (!weights.note.empty()) print(weights.note + '\n');
  if (setup.validation)
    print(line("validation", "validation", training::evaluate(setup, *setup.validation)));
  print(line("test      ", "test", training::evaluate(setup, *setup.test)));
  return exit_success;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& arguments) {
  Options options;
  OptionTable table("dimred evaluate", "Loss and accuracy of saved weights.");
  table.group("Evaluate");
  table.add("weights",
            &options.weights,
            "a run folder, a state, a snapshot, a safetensors file, or a folder of snapshots "
            "(their mean)");
  table.positional("weights");
  table.add("recalibrate_batchnorm",
            &options.recalibrate_batchnorm,
            "estimate BatchNorm's running statistics anew for a mean");
  training::add_compute_options(table, options.common.run);
  training::add_data_options(table, options.common.data);
  table.add("seed",
            &options.common.run.seed,
            "of the batches and augmentation that BatchNorm is recalibrated with",
            at_least(0));
  training::add_model_options(table, options.common.model);
  training::add_loss_options(table, options.common.loss);
  launch::add_options(table, options.common.ranks);
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  adopt(table, options);
  const auto place = launch::discover();
  training::resolve(options.common, place.size);
  const bool on_gpu = training::parse_device(options.common.run.device).is_cuda();
  return with_ranks("dimred evaluate", place, options.common.ranks, on_gpu, [&](const auto& ranks) {
    require_same_options(ranks, table);
    return score(options, ranks);
  });
}

}  // namespace dimred::commands
