#include "commands/data_command.h"

#include <array>

#include "commands/run.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

constexpr std::array tools = {
    Subcommand{"convert", "a data set into TFRecord, Base64 or packed files", data_convert},
    Subcommand{"shuffle-split",
               "a data set into N Base64 files of equal size, shuffled",
               data_shuffle_split},
    Subcommand{"pack", "a data set into one file that is mapped into memory", data_pack},
    Subcommand{"preview", "a picture of samples as training sees them", data_preview},
    Subcommand{"index", "of TFRecord files, so that they can be streamed at once", data_index},
    Subcommand{"inspect", "what a data set holds: kind, classes, sizes, problems", data_inspect},
};

}  // namespace

int data_command(const std::vector<std::string>& arguments) {
  require(!arguments.empty(), "[data] needs a tool; see dimred data --help");
  const auto& name = arguments.front();
  if (name == "--help" || name == "-h") {
    print(
        "dimred data: data sets from one form to another\n\n"
        "usage: dimred data TOOL [options]\n\n" +
        summaries(tools, 15) +
        "\n  --help         this text; dimred data TOOL --help lists a tool's options\n");
    return exit_success;
  }
  return subcommand(tools,
                    name,
                    {"--help"},
                    formatted("data {}: unknown tool", printable(name)),
                    "dimred data --help")
      .run({arguments.begin() + 1, arguments.end()});
}

}  // namespace dimred::commands
