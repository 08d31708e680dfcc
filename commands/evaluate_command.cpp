#include <iomanip>

#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/trainer_commands.h"
#include "training/evaluate.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct EvaluateOptions {
  training::CommonOptions common;
  fs::path weights;
  bool recalibrate_batchnorm = true;
};

std::string line(const char* what, const char* set, const training::Score& score) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << what << "  loss " << score.loss << "  accuracy "
      << std::setprecision(2) << 100 * score.accuracy << " %  (" << score.samples << " samples)\n";
  if (score.bad > 0) out << training::bad_text(score, set) << '\n';
  return out.str();
}

int score(const EvaluateOptions& options, const distributed::Ranks& ranks) {
  auto setup = training::make_setup(options.common, ranks);
  const auto weights = load_saved(setup, options.weights, options.recalibrate_batchnorm);
  print(lines_of(weights));
  if (setup.data.validation)
    print(line("validation", "validation", training::evaluate(setup, *setup.data.validation)));
  print(line("test      ", "test", training::evaluate(setup, *setup.data.test)));
  return exit_success;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& arguments) {
  EvaluateOptions options;
  OptionTable table("dimred evaluate", "Loss and accuracy of saved weights.");
  table.group("Evaluate");
  add_saved_options(table, options.weights, options.recalibrate_batchnorm);
  training::add_compute_options(table, options.common.run);
  training::add_data_options(table, options.common.data);
  table.locate_after_adoption("data");
  table.add("seed",
            &options.common.run.seed,
            "of the batches and augmentation that BatchNorm is recalibrated with",
            at_least(0));
  training::add_model_options(table, options.common.model);
  training::add_loss_options(table, options.common);
  launch::add_options(table, options.common.ranks);
  add_store_options(table);
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  adopt_run_of(table, options.weights, options.common, "evaluate");
  const auto rank_info = launch::discover();
  training::resolve(options.common, rank_info.size, table);
  const bool on_gpu = training::parse_device(options.common.run.device).is_cuda();
  return with_ranks(
      "dimred evaluate", rank_info, options.common.ranks, on_gpu, [&](const auto& ranks) {
        require_same_options(ranks, table);
        return score(options, ranks);
      });
}

}  // namespace dimred::commands
