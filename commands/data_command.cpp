#include "commands/data_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "commands/run.h"
#include "support/errors.h"
#include "support/options.h"

namespace dimred::commands {
namespace {

struct Tool {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr std::array tools = {
    Tool{"convert", "a data set into TFRecord, Base64 or packed files", data_convert},
    Tool{"shuffle-split",
         "a data set into N Base64 files of equal size, shuffled",
         data_shuffle_split},
    Tool{"pack", "a data set into one file that is mapped into memory", data_pack},
    Tool{"preview", "a picture of samples as training sees them", data_preview},
    Tool{"index", "of TFRecord files, so that they can be streamed at once", data_index},
    Tool{"inspect", "what a data set holds: kind, classes, sizes, problems", data_inspect},
};

std::string tools_help() {
  std::string text =
      "dimred data: data sets from one form to another\n\n"
      "usage: dimred data TOOL [options]\n\n";
  for (const auto& tool : tools)
    text +=
        formatted("  {}{}{}\n", tool.name, std::string(15 - tool.name.size(), ' '), tool.summary);
  return text + "\n  --help         this text; dimred data TOOL --help lists a tool's options\n";
}

}  // namespace

int data_command(const std::vector<std::string>& arguments) {
  require(!arguments.empty(), "[data] needs a tool; see dimred data --help");
  const auto& name = arguments.front();
  if (name == "--help" || name == "-h") {
    print(tools_help());
    return exit_success;
  }
  const auto* const tool = std::ranges::find(tools, name, &Tool::name);
  if (tool != tools.end()) return tool->run({arguments.begin() + 1, arguments.end()});
  std::vector<std::string> names = {"--help"};
  for (const auto& known : tools) names.emplace_back(known.name);
  const auto near = nearest(name, names);
  throw std::invalid_argument(formatted(
      "data {}: unknown tool; {}",
      printable(name),
      near ? formatted("did you mean {}?", *near) : std::string("see dimred data --help")));
}

}  // namespace dimred::commands
