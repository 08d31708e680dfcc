#include "commands/data_command.h"

#include <array>

#include "commands/run.h"
#include "support/errors.h"
#include "support/printable.h"

namespace dimred::commands {
namespace {

constexpr std::array tools = {
    Subcommand{"convert", "rewrite a data set as TFRecord, Base64 or packed files", data_convert},
    Subcommand{"shuffle-split",
               "shuffle a data set into N Base64 files of equal size",
               data_shuffle_split},
    Subcommand{"pack", "write a data set as files that are mapped into memory", data_pack},
    Subcommand{"preview", "draw samples as training sees them", data_preview},
    Subcommand{
        "index", "index TFRecord files, so that streaming starts without a scan", data_index},
    Subcommand{"inspect", "print a data set's kind, classes, sizes and problems", data_inspect},
};

}  // namespace

int data_command(const std::vector<std::string>& arguments) {
  require(!arguments.empty(), "[data] needs a tool; see dimred data --help");
  const auto& name = arguments.front();
  if (name == "--help" || name == "-h") {
    print(
        "dimred data: convert, shuffle, pack, index, preview and inspect data sets\n\n"
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
