#include "options/option_help.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "options/condition.h"
#include "options/effects.h"
#include "options/options_file.h"
#include "support/console.h"
#include "support/formatted.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred {
namespace {

/// How --help shows a kind's value, and what its JSON calls it.
struct KindNames {
  std::string_view metavar, name;
};

constexpr std::array kind_names = {  // in the order of OptionKind
    KindNames{" N", "integer"},
    KindNames{" X", "number"},
    KindNames{"", "boolean"},
    KindNames{" TEXT", "text"},
    KindNames{" PATH", "path"},
    KindNames{" NAME", "choice"},
    KindNames{" X,X,...", "numbers"}};

constexpr std::array<const char*, 10> role_names = {  // in the order of OptionRole
    "",
    "input",
    "data",
    "output",
    "overwrite",
    "threads",
    "quiet",
    "retention",
    "stream_cache",
    "stream_fetches"};

const KindNames& kind_names_of(const Option& row) {
  return kind_names[static_cast<std::size_t>(row.kind)];
}

/// The width of --help in columns: the terminal's, within limits that read well.
std::size_t page_width() {
  constexpr std::size_t narrowest = 60, widest = 100;
  const auto columns = terminal_columns(stdout);
  return columns == 0 ? widest : std::clamp(columns, narrowest, widest);
}

constexpr std::size_t help_column = 34;

std::string without_point_zero(std::string number) {
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number;
}

/// The default without TOML's trappings: 1 for 1.0, 3,32 for [3.0, 32.0], name for "name"; empty
/// when there is none.
std::string plain_default(const Option& row) {
  auto text = row.default_value;
  if (text.empty()) return row.optional ? "unset" : "";
  if (text.front() == '"' || text.front() == '[') text = text.substr(1, text.size() - 2);
  if (row.kind == OptionKind::numbers) return joined(split_list(text), ",", without_point_zero);
  return row.kind == OptionKind::number ? without_point_zero(text) : text;
}

constexpr std::string_view default_opening = " (default: ";

/// Whether a help ends with a default in words, which depends on more than this row.
bool has_default_in_words(const std::string& help) {
  return help.rfind(default_opening) != help.npos && help.ends_with(')');
}

/// A row's help, and the default in words at its end.
struct HelpText {
  std::string text;
  std::string default_value;
};

HelpText help_text(const Option& row) {
  if (!has_default_in_words(row.help)) return {row.help, plain_default(row)};
  const auto at = row.help.rfind(default_opening);
  auto value = row.help.substr(at + default_opening.size());
  value.pop_back();
  return {row.help.substr(0, at), value};
}

/// The help with range, choices, default and condition in brackets behind it.
std::string described(const Option& row) {
  const auto& [text, value] = help_text(row);
  std::vector<std::string> parts;
  if (!row.limits.empty()) parts.push_back(row.limits);
  if (!value.empty()) parts.push_back("default " + value);
  if (row.needs.test != Condition::Test::always)
    parts.push_back("needs " + condition_text(row.needs, "--"));
  return parts.empty() ? text : formatted("{} ({})", text, joined(parts, "; "));
}

/// `label`, then `text` at help_column: beside it where there is room, else below it.
std::string hanging(const std::string& label, const std::string& text) {
  std::string out = "  " + label;
  const bool beside = out.size() + 2 <= help_column;
  if (!beside) out += '\n';
  out.append(help_column - (beside ? out.size() : 0), ' ');
  return wrapped(out + text, page_width(), help_column) + '\n';
}

std::string upper(std::string name) {
  for (auto& letter : name) letter = letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter;
  return name;
}

/// A TOML value as JSON; null where it is unset.
nlohmann::ordered_json json_value(const Option& row, const std::string& toml) {
  if (toml.empty() || (row.optional && toml == "\"none\"")) return nullptr;
  const auto entry = read_toml(row.name, formatted("{} = {}", row.name, toml)).front();
  const bool is_json = row.kind == OptionKind::integer || row.kind == OptionKind::number ||
                       row.kind == OptionKind::boolean;
  if (is_json) return nlohmann::ordered_json::parse(entry.text);
  if (row.kind == OptionKind::numbers)
    return nlohmann::ordered_json::parse(formatted("[{}]", entry.text));
  return entry.text;
}

nlohmann::ordered_json json_needs(const Option& row, const OptionTable& table) {
  if (row.needs.test == Condition::Test::always) return nullptr;
  return {{"text", condition_text(row.needs)}, {"depends_on", deciding_rows(row.needs, table)}};
}

nlohmann::ordered_json json_row(const Option& row, const OptionTable& table) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  return {
      {"name", row.name},
      {"alias", text_or_null(row.alias)},
      {"group", row.group},
      {"help", row.help},
      {"type", kind_names_of(row).name},
      {"limits", row.limits},
      {"choices", row.choices},
      {"optional", row.optional},
      {"default", has_default_in_words(row.help) ? nullptr : json_value(row, row.default_value)},
      {"value", json_value(row, row.show())},
      {"level", row.essential || !table.has_essential() ? "essential" : "all"},
      {"positional", row.positional},
      {"role", text_or_null(role_names.at(static_cast<std::size_t>(row.role)))},
      {"resume", holds(row.may_change, table) ? "free" : "fixed"},
      {"persists", row.persists},
      {"rank", row.of_one_rank ? "one" : "all"},
      {"chosen_by", text_or_null(row.chosen_by)},
      {"needs", json_needs(row, table)},
      {"acts", holds(row.needs, table)}};
}

std::string text_help(const OptionTable& table, bool all) {
  const auto& command = table.command();
  const auto title = formatted("{}: {}", command, table.summary());
  auto out = formatted("{}\n\nusage: {}", wrapped(title, page_width(), 0), command);
  for (const auto& row : table.rows()) {
    if (row.positional) out += ' ' + upper(row.name);
  }
  if (!table.rest_name().empty()) out += ' ' + table.rest_name();
  out += " [options]\n";
  const bool shortened = !all && table.has_essential();
  const std::string* group = nullptr;
  for (const auto& row : table.rows()) {
    if (shortened && !row.essential) continue;
    if (group == nullptr || *group != row.group) out += formatted("\n{}:\n", row.group);
    group = &row.group;
    out += hanging(formatted("--{}{}", row.name, kind_names_of(row).metavar), described(row));
  }
  out += "\nAlways:\n";
  out += hanging("--config PATH", table.config().help);
  out += hanging("--help", "this text");
  if (!shortened) return out;
  const auto others = std::ranges::count(table.rows(), false, &Option::essential);
  return out + hanging("--help all", formatted("{} further options, too", others));
}

std::string completion_lines(const OptionTable& table) {
  std::string out = "--config PATH\n--help all\n";
  for (const auto& row : table.rows()) {
    out += "--" + row.name;
    if (row.kind == OptionKind::path) out += " PATH";
    if (row.kind == OptionKind::boolean) out += " true false";
    for (const auto& choice : row.choices) out += ' ' + choice;
    out += '\n';
  }
  return out;
}

std::string json_help(const OptionTable& table) {
  auto options = nlohmann::ordered_json::array();
  for (const auto& row : table.rows()) options.push_back(json_row(row, table));
  const nlohmann::ordered_json whole{
      {"command", table.command()}, {"summary", table.summary()}, {"options", options}};
  return whole.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// A request for --help.
struct HelpRequest {
  HelpLevel level;
  std::string unknown;  // the word behind it, where that names no level
};

/// Takes --help, and the level behind it, out of the arguments.
std::optional<HelpRequest> take_help(std::vector<std::string>& arguments) {
  using enum HelpLevel;
  constexpr std::array words{
      std::pair("all", all), std::pair("names", names), std::pair("json", json)};
  const auto asked = std::ranges::find_if(
      arguments, [](const auto& text) { return text == "--help" || text == "-h"; });
  if (asked == arguments.end()) return std::nullopt;
  const auto next = asked + 1;
  const auto* const word = std::ranges::find_if(
      words, [&](const auto& known) { return next != arguments.end() && *next == known.first; });
  const bool found = word != words.end();
  HelpRequest request{.level = found ? word->second : essential};
  if (!found && next != arguments.end() && !next->starts_with('-')) request.unknown = *next;
  arguments.erase(asked, next + (found ? 1 : 0));
  return request;
}

/// A person who asks for help gets it, whatever is wrong with the other arguments; who asks for
/// JSON relies on what it says of them.
std::string help_beside(const std::vector<std::string>& arguments,
                        HelpLevel level,
                        OptionTable& table) {
  try {
    table.read_flags(arguments);
  } catch (const std::invalid_argument&) {
    if (level == HelpLevel::json) throw;
  }
  return help_of(table, level);
}

}  // namespace

std::string help_of(const OptionTable& table, HelpLevel level) {
  if (level == HelpLevel::names) return completion_lines(table);
  return level == HelpLevel::json ? json_help(table) : text_help(table, level == HelpLevel::all);
}

std::optional<std::string> requested_help(OptionTable& table,
                                          const std::vector<std::string>& arguments) {
  auto others = arguments;
  const auto request = take_help(others);
  if (!request) return std::nullopt;
  if (!request->unknown.empty())
    table.notice(
        formatted("--help: needs all, json, names or no word after it, received {}; --help all "
                  "lists every option",
                  printable(request->unknown)));
  return help_beside(others, request->level, table);
}

}  // namespace dimred
