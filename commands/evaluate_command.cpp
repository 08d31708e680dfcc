#include <iomanip>
#include <sstream>

#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "engine/calibration.h"
#include "engine/evaluate.h"
#include "models/margin.h"
#include "support/console.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

struct EvaluateOptions : SavedOptions {
  bool fit_temperature = false;
};

void print_scores(engine::Setup& setup, const data::Dataset& samples, const char* set) {
  const auto score = engine::finite_score(setup, samples, set);
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << std::left << std::setw(10) << set << "  loss "
      << score.loss << "  accuracy " << std::setprecision(2) << 100 * score.accuracy << " %  ("
      << score.samples << " samples)\n";
  if (score.bad > 0) out << engine::bad_text(score, set) << '\n';
  print(out.str());
}

/// The search ends at a limit if the loss goes on falling there.
std::string meaning_of(double temperature) {
  constexpr double slack = 1 + 1e-6;
  const bool at_end = temperature <= engine::lowest_temperature * slack ||
                      temperature >= engine::highest_temperature / slack;
  if (!at_end) return "which gives the lowest validation loss";
  return formatted(
      "which is an end of the search from {} to {}: the validation loss may still fall beyond it",
      engine::lowest_temperature,
      engine::highest_temperature);
}

/// Loss and calibration error of both sets at the temperature that fits the validation set.
void print_calibration(engine::Setup& setup) {
  auto& communicator = *setup.communicator;
  const auto validation = engine::predictions(setup, *setup.data.validation);
  const auto test = engine::predictions(setup, *setup.data.test);
  const double best = engine::best_temperature(validation, communicator);
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << "logits divided by the temperature " << best << ", "
      << meaning_of(best) << '\n';
  for (const auto& [set, found] : {std::pair("validation", &validation), {"test      ", &test}}) {
    const auto before = engine::calibration(*found, 1, communicator);
    const auto after = engine::calibration(*found, best, communicator);
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
  run::add_compute_options(table, options.common.run);
  run::add_data_options(table, options.common.data);
  table
      .add("seed",
           &options.common.run.seed,
           "seed of the batches that recalibrate BatchNorm, and the default of split_seed",
           at_least(0))
      .needs(is_on("recalibrate_batchnorm") || above("validation_fraction"));
  run::add_model_options(table, options.common.model);
  models::add_options(table, options.common.head);
  launch::add_options(table, options.common.ranks);
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  adopt_run_of(table, options, DataUse::samples);
  run::resolve(options.common, launch::discover().size, table);
  return with_saved_network(table, options, [&](engine::Setup& setup, const auto& weights) {
    const auto& data = setup.data;
    const auto seen =
        checked_validation(table, weights, options.weights, data, options.common.data);
    require(data.validation || data.test,
            "[evaluate] needs a test set, but {} has none; give a test set with --test_data PATH, "
            "or other data with --data PATH",
            data.train->title());
    require(!options.fit_temperature || (data.validation && data.test),
            "[evaluate] fit_temperature needs a test set and a validation set that the run held "
            "out (--validation_fraction of stage1), received no {} set",
            data.validation ? "test" : "validation");
    if (data.test_is_train && setup.communicator->rank() == 0)
      Console(/*quiet=*/true).warn(engine::test_is_train_text);
    if (!seen.empty()) print(seen + "\n");
    if (data.validation) print_scores(setup, *data.validation, "validation");
    if (data.test)
      print_scores(setup, *data.test, "test");
    else
      print("no test set found; give a test set with --test_data PATH\n");
    if (options.fit_temperature) print_calibration(setup);
    return exit_success;
  });
}

}  // namespace dimred::commands
