
#include "commands/data_command.h"
#include "commands/front.h"
#include "commands/import_command.h"
#include "commands/inspect_command.h"
#include "commands/pca_command.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/store_command.h"
#include "launch/rank_info.h"
#include "support/errors.h"
#include "support/version.h"

// `dimred`: the torch-free front. Commands that need no network run here; the rest is another
// program, because loading LibTorch alone costs 0.3 s and 340 MB; so is a PCA of several ranks.
namespace {

using namespace dimred::commands;

int dispatch(const std::vector<std::string>& arguments) {
  dimred::require(!arguments.empty(), "[dimred] needs a subcommand; see dimred --help");
  const auto& name = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "--help" || name == "-h" || name == "help") {
    print(front_help());
  } else if (name == "--version") {
    print(dimred::formatted("dimred {} ({})\n", dimred::version(), dimred::revision()));
  } else if (name == "pca" && dimred::launch::discover().size == 1) {
    return pca_command(rest);
  } else if (name == "import") {
    return import_command(rest);
  } else if (name == "store") {
    return store_command(rest);
  } else if (name == "data") {
    return data_command(rest);
  } else if (name == "inspect" && !needs_network(rest)) {
    return inspect_command(rest);
  } else {
    check_subcommand(name);
    execute_trainer(arguments);
  }
  return exit_success;
}

}  // namespace

int main(int count, char** values) {
  const auto arguments = arguments_after(count, values, 1);
  return run(program_name(arguments), [&] {
    const auto command = arguments.empty() ? std::string() : arguments.front();
    return with_remote_urls(command, [&] { return dispatch(arguments); });
  });
}
