#include "commands/inspect_trajectory.h"

#include <cmath>
#include <cstdint>
#include <filesystem>

#include "checkpoints/weight_names.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/text_table.h"
#include "options/option_values.h"
#include "options/options.h"
#include "pca/trajectory.h"
#include "pca/trajectory_text.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

using StatisticCells = std::vector<std::string>;

std::string number(double value, int digits = 3) {
  return std::isfinite(value) ? decimal_text(value, digits) : "none";
}

StatisticCells statistic_row(const std::string& name, const pca::AgainstWalk& statistic) {
  return {name,
          number(statistic.value),
          number(statistic.walk),
          number(statistic.p_value),
          number(statistic.p_blocks)};
}

std::string whole_text(const pca::TrajectoryReport& report) {
  const auto& whole = report.whole;
  const auto& options = report.options;
  const auto windows = formatted("means of {}", options.window);
  const auto rounded = [](double cosine) { return number(cosine, 2); };
  return text_rows({{"snapshots",
                     formatted("{} of {} weights", report.snapshots, count_text(whole.weights))},
                    {"verdict", std::string(pca::text_of(whole.verdict))},
                    {"effective dimension", number(whole.directions.effective_dimension, 1)},
                    {"cosines by lag",
                     formatted("{} (lags 1 to {}; neighbours: p = {})",
                               joined(whole.directions.cosines, " ", rounded),
                               whole.directions.cosines.size(),
                               number(whole.directions.p_neighbours))},
                    {"random signs",
                     formatted("{} of each increment (p) and of blocks of {} (p, blocks), seed {}",
                               options.flips,
                               options.block,
                               options.seed)}}) +
         '\n' +
         aligned({{"", "measured", "random walk", "p", "p, blocks"},
                  statistic_row("straightness", whole.straightness),
                  statistic_row("PC1, centred", whole.centred.pc1),
                  statistic_row("R2 of a line", whole.centred.r2),
                  statistic_row("PC1, from the first", whole.base.pc1),
                  statistic_row("R2 of a line", whole.base.r2),
                  statistic_row("PC1, " + windows, whole.windows.pc1),
                  statistic_row("R2 of a line", whole.windows.r2)});
}

std::string tensors_text(const std::vector<pca::Trajectory>& tensors) {
  if (tensors.empty()) return {};
  std::vector<StatisticCells> rows{{"tensor",
                                    "verdict",
                                    "weights",
                                    "straightness",
                                    "p, Holm",
                                    "dimension",
                                    "lag 1",
                                    "PC1",
                                    "R2"}};
  for (const auto& tensor : tensors) {
    const bool still = tensor.verdict == pca::Verdict::still;
    const auto value = [&](double value, int digits = 3) {
      return still ? "-" : number(value, digits);
    };
    rows.push_back({terminal_text(tensor.name, ""),
                    std::string(pca::text_of(tensor.verdict)),
                    count_text(tensor.weights),
                    value(tensor.straightness.value),
                    value(tensor.p_adjusted),
                    value(tensor.directions.effective_dimension, 1),
                    value(still ? 0 : tensor.directions.cosines.front(), 2),
                    value(tensor.centred.pc1.value),
                    value(tensor.centred.r2.value)});
  }
  return '\n' + aligned(rows, 2);
}

}  // namespace

int inspect_trajectory(const std::vector<std::string>& arguments) {
  fs::path source;
  pca::TrajectoryOptions options;
  std::int64_t seed = 0;
  OptionTable table("dimred inspect --trajectory",
                    "test a trajectory of weight snapshots against a random walk");
  table.group("What");
  table.add("trajectory", &source, "folder, list, pattern or matrix of checkpoints, oldest first")
      .role(OptionRole::input);
  table.group("Tests");
  table.add("flips",
            &options.flips,
            "number of random trajectories in each test, made by changing signs or order of the "
            "increments",
            between(19, pca::most_flips));
  table.add("block",
            &options.block,
            "number of successive increments that get one common sign in the second test; 0: an "
            "eighth of all increments, at least 2",
            at_least(0));
  table.add("window",
            &options.window,
            "snapshots in a running mean; 0: a quarter of all snapshots, at least 2",
            at_least(0));
  table.add("seed", &seed, "seed of the random signs and orders", at_least(0));
  table.group("Machine");
  add_threads_option(table, options.threads);
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  require(!source.empty(), "[inspect] needs --trajectory FOLDER, LIST.txt, 'PATTERN' or FILE.npy");
  options.seed = static_cast<std::uint64_t>(seed);
  const auto report = pca::measure_trajectory(*pca::open_source(source), options);
  Console console(/*quiet=*/false);
  for (const auto& remark : report.remarks) console.warn(remark);
  if (!report.left_out.empty())
    console.line("left out as training state: " + checkpoints::count_and_names(report.left_out));
  for (const auto& limit : pca::limits_of(report)) console.warn(limit);
  print(text_row("trajectory", source.string()) + whole_text(report) +
        tensors_text(report.tensors));
  return exit_success;
}

}  // namespace dimred::commands
