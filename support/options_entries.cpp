#include <algorithm>
#include <stdexcept>

#include "support/errors.h"
#include "support/options.h"
#include "support/options_file.h"

// A configuration file's entries, applied to the options of a table.
namespace dimred {
namespace {

bool fits(const Option& row, const ConfigEntry& entry) {
  const auto type = entry.type;
  if (type == ConfigType::any) return true;
  if (row.optional && type == ConfigType::text) return entry.text == "none";
  switch (row.kind) {
    case OptionKind::integer:
      return type == ConfigType::integer;
    case OptionKind::number:
      return type == ConfigType::integer || type == ConfigType::number;
    case OptionKind::boolean:
      return type == ConfigType::boolean;
    case OptionKind::numbers:
      return type == ConfigType::numbers;
    default:
      return type == ConfigType::text;
  }
}

std::string_view noun(const Option& row) {
  switch (row.kind) {
    case OptionKind::integer:
      return "a whole number";
    case OptionKind::number:
      return "a number";
    case OptionKind::boolean:
      return "true or false";
    case OptionKind::numbers:
      return "an array of numbers";
    default:
      return "a quoted text";
  }
}

std::string_view type_name(ConfigType type) {
  switch (type) {
    case ConfigType::integer:
      return "the whole number ";
    case ConfigType::number:
      return "the number ";
    case ConfigType::text:
      return "the text ";
    case ConfigType::numbers:
      return "the array ";
    default:
      return "";
  }
}

}  // namespace

void OptionTable::apply(const ConfigEntry& entry) {
  auto* row = find(entry.name);
  if (row == nullptr || row == &config_) {
    throw std::invalid_argument(formatted(
        "{}: {}: unknown key{}", entry.source, printable(entry.name), suggestion(entry.name, "")));
  }
  if (row->origin == OptionOrigin::flag) return;
  const auto source = formatted("{}: {}", entry.source, entry.name);
  if (!fits(*row, entry)) {
    throw std::invalid_argument(formatted("{}: needs {}{}{}, received {}{}",
                                          source,
                                          noun(*row),
                                          row->limits.empty() ? "" : " ",
                                          row->limits,
                                          type_name(entry.type),
                                          printable(entry.text)));
  }
  const bool is_text = row->kind == OptionKind::text || row->kind == OptionKind::path;
  const bool none = entry.type == ConfigType::any && entry.text == "None" && is_text;
  apply(*row, none ? "" : entry.text, source, OptionOrigin::file);
}

void OptionTable::read_file(const std::filesystem::path& file) {
  for (const auto& entry : read_config_file(file)) apply(entry);
}

std::vector<std::string> OptionTable::adopt_file(const std::filesystem::path& file,
                                                 const std::vector<std::string>& groups) {
  return adopt(read_config_file(file), groups);
}

std::vector<std::string> OptionTable::adopt(const std::vector<ConfigEntry>& entries,
                                            const std::vector<std::string>& groups) {
  std::vector<std::string> overridden;
  for (const auto& entry : entries) {
    auto* row = find(entry.name);
    if (row == nullptr || std::find(groups.begin(), groups.end(), row->group) == groups.end())
      continue;
    if (row->origin == OptionOrigin::default_value) {
      apply(entry);
      continue;
    }
    const auto own = *row;
    const auto here = row->show();
    apply(*row, entry.text, formatted("{}: {}", entry.source, entry.name), OptionOrigin::file);
    const auto there = row->show();
    apply(*row, own.text, own.name, own.origin);
    if (here != there)
      overridden.push_back(formatted("{} = {} overrides {}", row->name, here, there));
  }
  locate_all();
  return overridden;
}

}  // namespace dimred
