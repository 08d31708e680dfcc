#include <cstdlib>
#include <functional>

#include "commands/model_command.h"
#include "commands/pca_command.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/trainer_commands.h"
#include "distributed/connect.h"
#include "models/script.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/standard_streams.h"

// `dimred-train`: what `dimred` executes for the subcommands that need LibTorch, and for a PCA of
// several ranks.
namespace {

using namespace dimred::commands;

int run_on_ranks(const dimred::OptionTable& table,
                 const dimred::launch::ConnectOptions& options,
                 const std::function<int(dimred::Communicator&)>& work) {
  const auto rank_info = dimred::launch::discover();
  return with_ranks("dimred pca", rank_info, options, /*on_gpu=*/false, [&](const auto& ranks) {
    require_same_options(ranks, table);
    return work(*ranks.communicator);
  });
}

int dispatch_trainer(const std::vector<std::string>& arguments) {
  dimred::require(
      !arguments.empty(),
      "[dimred-train] needs stage1, stage2 or evaluate; use the program `dimred` instead");
  const auto& name = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "stage1") {
    return asks_for(rest, "find_learning_rate") ? learning_rate_command(rest)
                                                : stage1_command(rest);
  }
  if (name == "stage2") return stage2_command(rest);
  if (name == "evaluate") return evaluate_command(rest);
  if (name == "export") return export_command(rest);
  if (name == "predict") return predict_command(rest);
  if (name == "verify") return verify_command(rest);
  if (name == "inspect")
    return asks_for(rest, "landscape") ? landscape_command(rest) : model_command(rest);
  if (name == "pca") return pca_command(rest, run_on_ranks);
  throw std::invalid_argument(
      "[dimred-train] needs stage1, stage2, evaluate, export, predict, verify or inspect, "
      "received " +
      name);
}

/// Says once what a module's file may do, and ends the process when one does not come back.
void host_modules(const std::string& name, const std::vector<std::string>& arguments) {
  auto& host = dimred::models::script_host();
  // On stdout predict prints nothing but its answers.
  auto* const stream = name == "dimred predict" ? stderr : stdout;
  if (!asks_for(arguments, "quiet")) {
    host.say = [stream](const std::string& text) { dimred::put_text(stream, text + "\n"); };
  }
  host.end = [name](const std::string& text) { std::_Exit(report(name, text, exit_caller)); };
}

/// Rank 0 reports the error for all; when it cannot be reached, each rank does.
void report_to_ranks(const std::string& name, const std::string& text) {
  dimred::launch::RankInfo rank_info;
  try {
    rank_info = dimred::launch::discover();
  } catch (const std::invalid_argument&) {  // nobody can be found in such an environment
  }
  if (rank_info.size > 1 && !dimred::distributed::decline(rank_info, text) && rank_info.rank != 0)
    report(name, dimred::formatted("rank {}: {}", rank_info.rank, text), exit_environment);
}

}  // namespace

int main(int count, char** values) {
  dimred::reserve_standard_streams();
  const auto arguments = arguments_after(count, values, 1);
  const auto name = arguments.empty() ? "dimred" : "dimred " + arguments.front();
  host_modules(name, arguments);
  const int code = run(
      name,
      [&] {
        const auto command = arguments.empty() ? std::string() : arguments.front();
        return with_remote_urls(command, [&] { return dispatch_trainer(arguments); });
      },
      [&](const std::string& text) { report_to_ranks(name, text); });
  // Standard output is written, and all of ours destroyed: what is left is a tenth of a second in
  // which LibTorch takes its operators out of their tables, one by one.
  std::_Exit(code);
}
