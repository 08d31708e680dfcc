#include "commands/import_command.h"

#include <algorithm>
#include <filesystem>

#include "commands/run.h"
#include "options/effects.h"
#include "options/options.h"
#include "support/errors.h"
#include "support/result_file.h"
#include "support/url.h"

namespace dimred::commands {
namespace {

void require_free_output(const ResultPlace& place) {
  require(place.path.extension() == ".toml",
          "[import] --output needs a name that ends in .toml, received {}",
          place.path);
  require_result_place(place);
}

void write_config(const ResultPlace& place, const imports::Import& import) {
  write_result(place, imports::to_toml(import));
  const auto& file = place.path;
  print(formatted("wrote {}: dimred {} --config {} --output RUN\n", file, import.command, file));
}

}  // namespace

int import_command(const std::vector<std::string>& arguments) {
  std::filesystem::path file, output;
  bool overwrite = false;
  OptionTable table("dimred import",
                    "translate a configuration file of FastNN or MindSpore, line by line. Exit "
                    "code 2 if a line is refused");
  table.group("What");
  table
      .add("file",
           &file,
           "FastNN's key=value lines, MindSpore's boost dictionary or a rank_table.json")
      .positional();
  table.add("output", &output, "TOML file to write, for --config").role(OptionRole::output);
  table.add("overwrite", &overwrite, "replace an existing output")
      .role(OptionRole::overwrite)
      .needs(has_value("output"));
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  auto place = result_place(table, &output);
  place.inputs = {file};
  if (!output.empty()) require_free_output(place);
  require(!file.empty(), "[import] needs a file; see dimred import --help");
  const auto format = imports::format_of(file);
  if (format == imports::ForeignFormat::rank_table) {
    require(
        output.empty(),
        "[import] --output does not work with a rank table, because a rank table has no options");
    print(imports::describe_rank_table(file));
    return exit_success;
  }
  const auto import = format == imports::ForeignFormat::boost ? imports::read_boost(file)
                                                              : imports::read_fastnn(file);
  print(imports::describe(import));
  imports::require_overridden(import, [](std::string_view) { return false; });
  if (!output.empty()) write_config(place, import);
  return exit_success;
}

std::filesystem::path take_file(std::vector<std::string>& arguments, const std::string& flag) {
  std::filesystem::path file;
  for (std::size_t i = 0; i < arguments.size();) {
    const bool joined = arguments[i].starts_with(flag + "=");
    if (!joined && arguments[i] != flag) {
      ++i;
      continue;
    }
    const bool has_next = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    const auto value = joined     ? arguments[i].substr(flag.size() + 1)
                       : has_next ? arguments[i + 1]
                                  : "";
    if (value.empty()) throw std::invalid_argument(formatted("{}: needs a file", flag));
    if (looks_like_url(value))
      throw std::invalid_argument(formatted("{}: needs a file on this machine, received the URL {}",
                                            flag,
                                            without_credentials(value)));
    if (!file.empty()) throw std::invalid_argument(formatted("{}: given twice", flag));
    file = value;
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + (joined ? 1 : 2));
  }
  return file;
}

std::string foreign_help(const std::string& flag, const std::string& what) {
  constexpr std::size_t help_column = 34;
  auto label = formatted("  {} FILE", flag);
  label.resize(help_column, ' ');
  return formatted("\n{}{};\n{}`dimred import FILE` says what each line means\n",
                   label,
                   what,
                   std::string(help_column, ' '));
}

std::vector<std::string> adopt_import(OptionTable& table, const imports::Import& import) {
  const auto& rows = table.rows();
  for (const auto& row : rows) {
    require(row.origin != OptionOrigin::file,
            "[{}] needs either --config or a file of another system, received both",
            import.command);
  }
  imports::require_overridden(import, [&](std::string_view name) {
    return std::ranges::any_of(rows, [&](const Option& row) {
      return row.name == name && row.origin == OptionOrigin::flag;
    });
  });
  table.read_entries(imports::entries_of(import));
  return imports::remarks(import);
}

}  // namespace dimred::commands
