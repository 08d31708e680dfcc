#include "options/options_file.h"

// toml++ takes for granted what a damaged file does not keep to (its issue 294); where its public
// TOML_ASSERT stands in the place of that, it answers by its own later checks.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "options/option_values.h"
#include "options/toml_letters.h"
#include "support/atomic_file.h"
#include "support/byte_order_mark.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"
#include "support/url.h"
#include "support/utf8.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

std::string source_of(const fs::path& file, std::size_t line, std::size_t column) {
  return formatted("{}:{}:{}", file, line, column);
}

std::string read_text(const fs::path& file) {
  constexpr std::int64_t most = 256 << 10;
  std::string text;
  try {
    text = InputFile(file).text(most);
  } catch (const std::exception&) {
    refuse("--config: needs a readable file of at most {} bytes, received {}",
           most,
           without_credentials(file.string()));
  }
  return std::string(without_byte_order_mark(text, path_text(file)));
}

struct TomlValue {
  ConfigType type;
  std::string text;
};

TomlValue value_of(const toml::node& node) {
  using enum ConfigType;
  if (const auto* given = node.as_string()) return {ConfigType::text, from_plane_13(given->get())};
  if (const auto* given = node.as_floating_point()) return {number, number_text(given->get())};
  if (const auto* given = node.as_integer()) return {integer, std::to_string(given->get())};
  if (const auto* given = node.as_boolean()) return {boolean, given->get() ? "true" : "false"};
  if (node.is_table()) return {table, "a table"};
  const auto* array = node.as_array();
  if (array == nullptr) return {other, "a date or time"};
  const bool all = std::all_of(
      array->begin(), array->end(), [](const toml::node& item) { return item.is_number(); });
  const auto text_of = [](const toml::node& item) { return value_of(item).text; };
  return {all ? numbers : other, joined(*array, ",", text_of)};
}

std::vector<ConfigEntry> read_key_values(const fs::path& file, const std::string& text) {
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
    require(equals != content.npos && !name.empty(),
            "{}: needs a line key=value, received {}",
            source,
            printable(content));
    require(seen.insert(name).second, "{}: {}: given twice", source, printable(name));
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
  return dots;
}

void require_utf8(const fs::path& file, std::string_view text) {
  const auto valid = utf8_text(text);
  if (valid == text) return;
  const auto before = text.substr(
      0, static_cast<std::size_t>(std::ranges::mismatch(text, valid).in1 - text.begin()));
  const auto line = static_cast<std::size_t>(std::ranges::count(before, '\n')) + 1;
  refuse("{}: the file is not TOML, because its text is not UTF-8",
         source_of(file, line, before.size() - before.rfind('\n')));
}

}  // namespace

std::string toml_value(const ConfigEntry& entry) {
  if (entry.type == ConfigType::text) return toml_string(entry.text);
  if (entry.type == ConfigType::numbers)
    return formatted("[{}]", joined(split_list(entry.text), ", "));
  return entry.text;
}

std::vector<ConfigEntry> read_toml(const fs::path& file, const std::string& text) {
  // a.b.c = 1 makes a table in a table, each of some hundred bytes, and they end recursively.
  constexpr std::size_t most_dots = 4000;
  const auto dots = dots_in_keys(text);
  require(dots <= most_dots,
          "{}: needs at most {} dots in its keys, received {}",
          file,
          most_dots,
          dots);
  require_utf8(file, text);
  require(
      !holds_plane_13(text) && !escapes_plane_13(text),
      "{}: needs text without the unassigned Unicode characters U+D0000 to U+DFFFF, received one "
      "of them; remove this character",
      file);
  toml::table table;
  try {
    table = toml::parse(to_plane_13(text));
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    refuse("{}: the file is not TOML: {}",
           source_of(file, at.line, at.column),
           printable(from_plane_13(error.description())));
  }
  // toml++ keeps keys in alphabetical order; a person reads errors from the top of the file.
  std::multimap<toml::source_position, ConfigEntry> found;
  for (const auto& [key, node] : table) {
    const auto at = key.source().begin;
    const auto [type, value] = value_of(node);
    found.insert(
        {at, {from_plane_13(key.str()), value, source_of(file, at.line, at.column), type}});
  }
  std::vector<ConfigEntry> entries;
  for (auto& [at, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

std::vector<ConfigEntry> read_config_file(const fs::path& file) {
  const auto text = read_text(file);
  return file.extension() == ".toml" ? read_toml(file, text) : read_key_values(file, text);
}

}  // namespace dimred
