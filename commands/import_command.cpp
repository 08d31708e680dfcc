#include "commands/import_command.h"

#include <filesystem>

#include "commands/run.h"
#include "imports/import.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/options.h"

namespace dimred::commands {
namespace {

void write_config(const std::filesystem::path& file, const imports::Import& import) {
  require(file.extension() == ".toml",
          "[import] output needs a name that ends in .toml, received {}",
          file.string());
  write_file_atomically(file, imports::to_toml(import));
  print(formatted("wrote {}: dimred {} --config {} --output RUN\n",
                  file.string(),
                  import.command,
                  file.string()));
}

}  // namespace

int import_command(const std::vector<std::string>& arguments) {
  std::filesystem::path file, output;
  OptionTable table(
      "dimred import",
      "What a configuration file of FastNN or MindSpore means here, line by line; exit "
      "code 2 when a line is refused.");
  table.group("What");
  table.add(
      "file", &file, "FastNN's key=value lines, MindSpore's boost dictionary or a rank_table.json");
  table.positional("file");
  table.add("output", &output, "write what is mapped as a .toml for --config");
  if (const auto help = table.parse(arguments)) {
    print(*help);
    return exit_success;
  }
  require(!file.empty(), "[import] needs a file; see dimred import --help");
  const auto format = imports::format_of(file);
  if (format == imports::Format::rank_table) {
    require(output.empty(), "[import] output needs options; a rank table has none");
    print(imports::describe_rank_table(file));
    return exit_success;
  }
  const auto import =
      format == imports::Format::boost ? imports::read_boost(file) : imports::read_fastnn(file);
  print(imports::describe(import));
  imports::require_overridden(import, [](std::string_view) { return false; });
  if (!output.empty()) write_config(output, import);
  return exit_success;
}

}  // namespace dimred::commands
