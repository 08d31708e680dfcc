#include <iomanip>
#include <sstream>

#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "models/margin.h"
#include "support/errors.h"
#include "training/calibration.h"
#include "training/evaluate.h"

namespace dimred::commands {
namespace {

struct EvaluateOptions : SavedOptions {
  bool fit_temperature = false;
};

void print_scores(training::Setup& setup, const data::Dataset& samples, const char* set) {
  const auto score = training::finite_score(setup, samples, set);
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << std::left << std::setw(10) << set << "  loss "
      << score.loss << "  accuracy " << std::setprecision(2) << 100 * score.accuracy << " %  ("
      << score.samples << " samples)\n";
  if (score.bad > 0) out << training::bad_text(score, set) << '\n';
  print(out.str());
}

/// Loss and calibration error of both sets at the temperature that fits the validation set.
void print_calibration(training::Setup& setup) {
  auto& communicator = *setup.communicator;
  const auto validation = training::predictions(setup, *setup.data.validation);
  const auto test = training::predictions(setup, *setup.data.test);
  const double best = training::best_temperature(validation, communicator);
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << "logits divided by the temperature " << best
      << ", of the lowest validation loss\n";
  for (const auto& [set, found] : {std::pair("validation", &validation), {"test      ", &test}}) {
    const auto before = training::calibration(*found, 1, communicator);
    const auto after = training::calibration(*found, best, communicator);
    out << std::setprecision(4) << set << "  loss " << after.loss << "  calibration error "
        << std::setprecision(2) << 100 * after.error << " %  (" << 100 * before.error
        << " % without)\n";
  }
  print(out.str());
}

}  // namespace

int evaluate_command(const std::vector<std::string>& arguments) {
  EvaluateOptions options;
  OptionTable table("dimred evaluate", "measure loss and accuracy of saved weights");
  table.group("Evaluate", {.essential = true});
  add_saved_options(table, options);
  table.add("fit_temperature",
            &options.fit_temperature,
            "also score logits divided by the temperature that minimises the validation loss");
  training::add_compute_options(table, options.common.run);
  training::add_data_options(table, options.common.data);
  table
      .add("seed",
           &options.common.run.seed,
           "seed of the batches and augmentation that recalibrate BatchNorm",
           at_least(0))
      .needs(is_on("recalibrate_batchnorm") || above("validation_fraction"));
  training::add_model_options(table, options.common.model);
  models::add_options(table, options.common.head);
  launch::add_options(table, options.common.ranks);
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  adopt_run_of(table, options, "evaluate", DataUse::samples);
  print_default_data(table, options.weights, options.common.data);
  training::resolve(options.common, launch::discover().size, table);
  return with_saved_network(table, options, [&](training::Setup& setup) {
    const auto& data = setup.data;
    require(
        data.validation || data.test,
        "[evaluate] needs a test set, and {} has none; give one with --test_data PATH, or other "
        "data with --data PATH",
        data.train->title());
    require(!options.fit_temperature || (data.validation && data.test),
            "[evaluate] fit_temperature needs a test set and the run's validation set "
            "(--validation_fraction), received no {} set",
            data.validation ? "test" : "validation");
    if (data.validation) print_scores(setup, *data.validation, "validation");
    if (data.test)
      print_scores(setup, *data.test, "test");
    else
      print("no test set; --test_data PATH names one\n");
    if (options.fit_temperature) print_calibration(setup);
    return exit_success;
  });
}

}  // namespace dimred::commands
