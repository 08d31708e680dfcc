#include "commands/run.h"
#include "commands/trainer_commands.h"
#include "distributed/connect.h"
#include "support/errors.h"

// `dimred-train`: what `dimred` executes for the subcommands that need LibTorch.
namespace {

using namespace dimred::commands;

int dispatch(const std::vector<std::string>& arguments) {
  dimred::require(
      !arguments.empty(), "dimred-train", "needs stage1, stage2 or evaluate; use `dimred`");
  const auto& name = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "stage1") return stage1_command(rest);
  if (name == "stage2") return stage2_command(rest);
  if (name == "evaluate") return evaluate_command(rest);
  throw std::invalid_argument("[dimred-train] needs stage1, stage2 or evaluate, received " + name);
}

}  // namespace

int main(int count, char** values) {
  const auto arguments = arguments_after(count, values, 1);
  const auto name = arguments.empty() ? "dimred" : "dimred " + arguments.front();
  return run(
      name,
      [&] { return dispatch(arguments); },
      [](const std::string& text) {
        dimred::distributed::refuse(dimred::launch::discover(), text);
      });
}
