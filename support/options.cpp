#include "support/options.h"

#include <algorithm>
#include <stdexcept>

#include "support/errors.h"
#include "support/locations.h"

namespace dimred {
namespace {

/// A row for an optional number: `parse` converts, "none" unsets, `print` shows.
template <class Number, class Parse, class Print>
Option optional_row(std::optional<Number>* field, Parse parse, Print print) {
  Option row;
  row.optional = true;
  row.assign = [field, parse](const std::string& text) {
    if (text == "none" || text == "None") {
      field->reset();
    } else {
      *field = parse(text);
    }
  };
  // An option that is set by default and was unset has to say so in config.toml.
  const std::string unset = field->has_value() ? "\"none\"" : "";
  row.show = [field, unset, print] { return field->has_value() ? print(**field) : unset; };
  return row;
}

Option named(Option row, std::string name, std::string help, OptionKind kind, std::string limits) {
  row.name = std::move(name);
  row.help = std::move(help);
  row.kind = kind;
  row.limits = std::move(limits);
  return row;
}

/// A text with a blank before its scheme is no URL, and messages would show its password.
std::string parse_location(const std::string& text) {
  if (!looks_like_url(text) && text.find("://") != std::string::npos)
    throw std::invalid_argument("needs a URL to begin with its scheme");
  return parse_text(text);
}

std::string print_integer(std::int64_t value) { return std::to_string(value); }

/// A path as a run may record it: a later command may stand in another folder.
std::filesystem::path absolute_path(const std::filesystem::path& path) {
  if (path.empty()) return path;
  auto absolute = std::filesystem::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

}  // namespace

OptionTable::OptionTable(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {
  config_.name = "config";
  config_.kind = OptionKind::path;
  config_.help = "read options from this file: TOML, or key=value lines; flags override it";
}

void OptionTable::group(std::string heading) { group_ = std::move(heading); }

void OptionTable::add_row(Option row) {
  check(row.name != "config" && row.name != "help" && find(row.name) == nullptr,
        "two options are called " + row.name);
  row.group = group_;
  row.default_value = row.show();
  rows_.push_back(std::move(row));
}

void OptionTable::add(std::string name, std::int64_t* field, std::string help, Range range) {
  Option row;
  row.assign = [field, range](const std::string& text) { *field = parse_integer(text, range); };
  row.show = [field] { return std::to_string(*field); };
  add_row(named(row, std::move(name), std::move(help), OptionKind::integer, range_text(range)));
}

void OptionTable::add(std::string name, double* field, std::string help, Range range) {
  Option row;
  row.assign = [field, range](const std::string& text) { *field = parse_number(text, range); };
  row.show = [field] { return toml_number(*field); };
  add_row(named(row, std::move(name), std::move(help), OptionKind::number, range_text(range)));
}

void OptionTable::add(std::string name,
                      std::optional<std::int64_t>* field,
                      std::string help,
                      Range range) {
  const auto parse = [range](const std::string& text) { return parse_integer(text, range); };
  add_row(named(optional_row(field, parse, print_integer),
                std::move(name),
                std::move(help),
                OptionKind::integer,
                range_text(range)));
}

void OptionTable::add(std::string name,
                      std::optional<double>* field,
                      std::string help,
                      Range range) {
  const auto parse = [range](const std::string& text) { return parse_number(text, range); };
  add_row(named(optional_row(field, parse, toml_number),
                std::move(name),
                std::move(help),
                OptionKind::number,
                range_text(range)));
}

void OptionTable::add(std::string name, bool* field, std::string help) {
  Option row;
  row.assign = [field](const std::string& text) { *field = parse_boolean(text); };
  row.show = [field] { return *field ? "true" : "false"; };
  add_row(named(row, std::move(name), std::move(help), OptionKind::boolean, ""));
}

void OptionTable::add(std::string name, std::string* field, std::string help) {
  Option row;
  row.assign = [field](const std::string& text) { *field = parse_location(text); };
  row.show = [field] { return toml_string(*field); };
  add_row(named(row, std::move(name), std::move(help), OptionKind::text, ""));
}

void OptionTable::add(std::string name, std::filesystem::path* field, std::string help) {
  Option row;
  row.assign = [field](const std::string& text) {
    // A URL stands here as it is until locate().
    *field = looks_like_url(text) ? std::filesystem::path(parse_location(text))
                                  : absolute_path(parse_location(text));
  };
  row.show = [field] { return toml_string(location_text(*field)); };
  add_row(named(row, std::move(name), std::move(help), OptionKind::path, ""));
}

void OptionTable::add(std::string name, std::vector<double>* field, std::string help, Range range) {
  Option row;
  row.assign = [field, range](const std::string& text) { *field = parse_numbers(text, range); };
  row.show = [field] {
    std::string text;
    for (const double value : *field) text += (text.empty() ? "" : ", ") + toml_number(value);
    return "[" + text + "]";
  };
  add_row(named(row, std::move(name), std::move(help), OptionKind::numbers, range_text(range)));
}

void OptionTable::add_index(const std::string& name,
                            const std::string& help,
                            const std::vector<std::string>& texts,
                            std::function<void(std::size_t)> assign,
                            std::function<std::size_t()> show) {
  std::string limits;
  for (const auto& text : texts) limits += (limits.empty() ? "" : " | ") + text;
  Option row;
  row.show = [show = std::move(show), texts] { return toml_string(texts[show()]); };
  row.assign = [assign = std::move(assign), texts, limits](const std::string& text) {
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (found == texts.end()) {
      const auto near = nearest(text, texts);
      throw std::invalid_argument(
          formatted("needs one of {}{}", limits, near ? formatted(" (nearest: {})", *near) : ""));
    }
    assign(static_cast<std::size_t>(found - texts.begin()));
  };
  add_row(named(row, name, help, OptionKind::choice, limits));
}

void OptionTable::positional(std::string_view name) { known(name).positional = true; }

void OptionTable::locate_after_adoption(std::string_view name) {
  known(name).waits_for_adoption = true;
}

void OptionTable::locate_all() {
  for (auto& row : rows_) row.waits_for_adoption = false;
  locate(rows_, *this);
}

void OptionTable::alias(std::string_view name, std::string alias) {
  check(find(alias) == nullptr, "two options are called " + alias);
  auto& row = known(name);
  row.help += formatted("; also {}", alias);
  row.alias = std::move(alias);
}

const Option* OptionTable::row(std::string_view name) const {
  const auto found = std::ranges::find(rows_, name, &Option::name);
  return found == rows_.end() ? nullptr : &*found;
}

Option* OptionTable::find(std::string_view name) {
  if (name == config_.name) return &config_;
  for (auto& row : rows_) {
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return &row;
  }
  return nullptr;
}

Option& OptionTable::known(std::string_view name) {
  auto* row = find(name);
  check(row != nullptr && row != &config_, formatted("{} has no option {}", command_, name));
  return *row;
}

std::string OptionTable::suggestion(std::string_view name, std::string_view prefix) const {
  std::vector<std::string> names;
  for (const auto& row : rows_) names.push_back(row.name);
  if (!prefix.empty()) names.insert(names.end(), {"config", "help"});
  if (const auto near = nearest(name, names))
    return formatted("; did you mean {}{}?", prefix, *near);
  return formatted("; see {} --help", command_);
}

void OptionTable::apply(Option& row,
                        const std::string& text,
                        std::string_view source,
                        OptionOrigin origin) {
  try {
    // An empty flag is as a rule a script's unset variable; in config.toml "" means unset.
    if (row.kind == OptionKind::path && text.empty() && origin == OptionOrigin::flag)
      throw std::invalid_argument("needs a path");
    row.assign(text);
  } catch (const std::invalid_argument& broken) {
    throw std::invalid_argument(
        formatted("{}: {}, received {}", source, broken.what(), printable(text)));
  }
  row.text = text;
  row.origin = origin;
}

OptionOrigin OptionTable::origin(std::string_view name) const {
  return const_cast<OptionTable*>(this)->known(name).origin;
}

bool OptionTable::was_set(std::string_view name) const {
  return origin(name) != OptionOrigin::default_value;
}

}  // namespace dimred
