#include "support/options_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/option_values.h"
#include "support/text.h"

namespace dimred {
namespace {

std::string source_of(const std::filesystem::path& file, std::size_t line, std::size_t column) {
  return formatted("{}:{}:{}", file, line, column);
}

std::string read_text(const std::filesystem::path& file) {
  constexpr std::int64_t most = 256 << 10;
  try {
    return InputFile(file).text(most);
  } catch (const std::exception&) {
    throw std::invalid_argument(
        formatted("--config: needs a readable file, received {} (of at most {} bytes)",
                  without_credentials(file.string()),
                  most));
  }
}

ConfigType type_of(const toml::node& node) {
  if (node.is_integer()) return ConfigType::integer;
  if (node.is_floating_point()) return ConfigType::number;
  if (node.is_boolean()) return ConfigType::boolean;
  if (node.is_string()) return ConfigType::text;
  if (node.is_table()) return ConfigType::table;
  if (const auto* array = node.as_array()) {
    const bool numbers = std::all_of(
        array->begin(), array->end(), [](const toml::node& item) { return item.is_number(); });
    if (numbers) return ConfigType::numbers;
  }
  return ConfigType::other;
}

std::string value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  std::string text;
  if (const auto* array = node.as_array()) {
    for (const auto& item : *array) text += (text.empty() ? "" : ",") + value_text(item);
    return text;
  }
  return "a date or time";
}

std::vector<ConfigEntry> read_key_values(const std::filesystem::path& file,
                                         const std::string& text) {
  std::vector<ConfigEntry> entries;
  std::set<std::string> seen;
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    const auto content = trimmed(line);
    if (content.empty() || content.front() == '#') continue;
    const auto source = source_of(file, number, line.find_first_not_of(" \t") + 1);
    const auto equals = content.find('=');
    const std::string name(trimmed(content.substr(0, equals)));
    if (equals == std::string::npos || name.empty()) {
      throw std::invalid_argument(
          formatted("{}: needs key=value, received {}", source, printable(content)));
    }
    if (!seen.insert(name).second) {
      throw std::invalid_argument(formatted("{}: {}: given twice", source, printable(name)));
    }
    entries.push_back(
        {name, std::string(trimmed(content.substr(equals + 1))), source, ConfigType::any});
  }
  return entries;
}

/// Dots before a line's last = or in a [table]'s line, and not those of numbers.
std::size_t dots_in_keys(std::string_view text) {
  std::ptrdiff_t dots = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    const bool is_table = trimmed(line).starts_with('[');
    const auto keys = is_table ? line : line.substr(0, line.rfind('=') + 1);
    dots += std::ranges::count(keys, '.');
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return static_cast<std::size_t>(dots);
}

}  // namespace

std::vector<ConfigEntry> read_toml(const std::filesystem::path& file, const std::string& text) {
  // a.b.c = 1 makes a table in a table, each of some hundred bytes, and they end recursively.
  constexpr std::size_t most_dots = 4000;
  if (dots_in_keys(text) > most_dots)
    throw std::invalid_argument(
        formatted("{}: needs at most {} dots in its keys", file, most_dots));
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw std::invalid_argument(formatted(
        "{}: not TOML: {}", source_of(file, at.line, at.column), printable(error.description())));
  }
  std::vector<std::pair<toml::source_position, ConfigEntry>> found;
  for (const auto& [key, node] : table) {
    const auto at = key.source().begin;
    found.push_back({at,
                     {std::string(key.str()),
                      value_text(node),
                      source_of(file, at.line, at.column),
                      type_of(node)}});
  }
  // toml++ keeps keys in alphabetical order; a person reads errors from the top of the file.
  std::sort(found.begin(), found.end(), [](const auto& left, const auto& right) {
    return left.first < right.first;
  });
  std::vector<ConfigEntry> entries;
  entries.reserve(found.size());
  for (auto& [at, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

std::vector<ConfigEntry> read_config_file(const std::filesystem::path& file) {
  const auto text = read_text(file);
  return file.extension() == ".toml" ? read_toml(file, text) : read_key_values(file, text);
}

}  // namespace dimred
