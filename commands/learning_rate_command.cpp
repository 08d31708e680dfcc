#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "engine/data_sets.h"
#include "optimizers/optimizer.h"
#include "run/make_setup.h"
#include "run/weights/transfer.h"
#include "stage1/learning_rate_finder.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/result_file.h"
#include "support/suggestion.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct LearningRateOptions {
  run::CommonOptions common;
  stage1::FinderOptions finder;
  optimizers::OptimizerOptions optimizer;
  run::TransferOptions transfer;
  fs::path table;
  ResultPlace place;  // that table names
  bool overwrite = false;
};

void add_finder_options(OptionTable& table, LearningRateOptions& options) {
  table.group("Learning rates", {.essential = true});
  table
      .add("find_learning_rate",
           &options.table,
           "CSV file to write, with a table of rates and losses")
      .of_this_machine();
  table.add("overwrite", &options.overwrite, "replace an existing table")
      .role(OptionRole::overwrite);
  table.add("start_rate", &options.finder.start_rate, "rate of the first step", positive());
  table.add("end_rate", &options.finder.end_rate, "rate of the last step", positive());
  table.add("steps",
            &options.finder.steps,
            "number of steps; each raises the rate by the same factor",
            at_least(20));
  table.add("global_batch_size",
            &options.common.run.global_batch_size,
            "samples per step over all ranks (default: batch_size x ranks)",
            at_least(1));
  table.add("seed",
            &options.common.run.seed,
            "seed of initial weights, sample order and augmentation",
            at_least(0));
  table.add("quiet", &options.common.run.quiet, "print errors only").role(OptionRole::quiet);
}

/// All that can be refused is refused before anything is loaded.
void check_finder(const LearningRateOptions& options) {
  const auto& file = options.table;
  require(file.extension() == ".csv",
          "[find_learning_rate] needs an output file whose name ends in .csv, received {}",
          file);
  require(fs::is_directory(file.parent_path()),
          "[find_learning_rate] needs an existing folder, received {}",
          file.parent_path());
  require_result_place(options.place);
  stage1::validate(options.finder);
  optimizers::validate(options.optimizer);
}

std::string finder_text(const std::vector<stage1::FinderPoint>& points,
                        const LearningRateOptions& options) {
  const auto suggestion = stage1::suggest(points, options.finder.steps);
  const bool whole = std::ssize(points) == options.finder.steps;
  return formatted(
      "learning_rate: try {} (where the loss falls fastest) or {} (a tenth of the rate with the "
      "lowest loss); {} steps up to the rate {}{}",
      suggestion.steepest,
      suggestion.tenth(),
      points.size(),
      points.back().learning_rate,
      whole ? "" : ", where the loss had grown too large");
}

int find(LearningRateOptions& options, const distributed::Ranks& ranks) {
  auto setup = run::make_setup(options.common, ranks);
  engine::require_cache_for_pass(setup.data);
  auto console = console_of(ranks, options.common.run.quiet);
  if (!options.transfer.initialize_from.empty())
    run::initialize(setup, options.transfer, /*folder=*/{}, console);
  const auto points = stage1::sweep(setup, options.finder, options.optimizer, console);
  on_rank_0(*ranks.communicator, [&] { write_result(options.place, stage1::to_csv(points)); });
  console.line(finder_text(points, options));
  return exit_success;
}

}  // namespace

int learning_rate_command(const std::vector<std::string>& arguments) {
  LearningRateOptions options;
  OptionTable table("dimred stage1",
                    "measure a network's loss while the learning rate rises from step to step");
  add_finder_options(table, options);
  run::add_compute_options(table, options.common.run);
  run::add_data_options(table, options.common.data);
  run::add_model_options(table, options.common.model);
  run::add_transfer_options(table, options.transfer);
  run::add_loss_options(table, options.common);
  optimizers::add_options(table, options.optimizer);
  launch::add_options(table, options.common.ranks);
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  options.place = result_place(table, &options.table);
  check_finder(options);
  table.locate_all();
  choose_network_by_data(table, options.common.model);
  run::resolve(options.common, launch::discover().size, table);
  return with_ranks(table, options.common, [&](const auto& ranks) { return find(options, ranks); });
}

}  // namespace dimred::commands
