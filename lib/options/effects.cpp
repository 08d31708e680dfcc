#include "options/effects.h"

#include <algorithm>
#include <cstdlib>

#include "support/errors.h"

namespace dimred {
namespace {

const Option& named_row(const Condition& condition, const OptionTable& table) {
  const auto* row = table.row(condition.row);
  check(row != nullptr,
        formatted("{} has no option {}, which another one needs", table.command(), condition.row));
  return *row;
}

bool holds_as_written(const Condition& condition, const OptionTable& table) {
  const auto part_holds = [&](const Condition& part) { return holds(part, table); };
  if (condition.test == Condition::Test::always) return true;
  if (condition.test == Condition::Test::all)
    return std::ranges::all_of(condition.parts, part_holds);
  if (condition.test == Condition::Test::any)
    return std::ranges::any_of(condition.parts, part_holds);
  const auto& row = named_row(condition, table);
  const auto value = row.value();
  switch (condition.test) {
    case Condition::Test::is:
      return std::ranges::count(condition.values, value) > 0 && holds(row.needs, table);
    case Condition::Test::above:
      return std::strtod(value.c_str(), nullptr) > condition.bound && holds(row.needs, table);
    case Condition::Test::has_value:
      return !value.empty() && holds(row.needs, table);
    default:
      return row.was_set();
  }
}

void collect(const Condition& condition,
             const OptionTable& table,
             std::vector<std::string>& found) {
  for (const auto& part : condition.parts) collect(part, table, found);
  if (condition.row.empty()) return;
  const auto& row = named_row(condition, table);
  for (const auto& name : {row.name, row.chosen_by})
    if (!name.empty() && std::ranges::find(found, name) == found.end()) found.push_back(name);
  collect(row.needs, table, found);
}

}  // namespace

bool holds(const Condition& condition, const OptionTable& table) {
  return holds_as_written(condition, table) != condition.negated;
}

std::vector<std::string> deciding_rows(const Condition& condition, const OptionTable& table) {
  std::vector<std::string> found;
  collect(condition, table, found);
  return found;
}

void require_effects(const OptionTable& table) {
  for (const auto& row : table.rows()) {
    const bool asked = row.origin == OptionOrigin::flag || (row.was_set() && !row.idle_in_files);
    const bool meant = !row.chosen_by.empty() && row.idle_in_files;  // also at the preset's value
    const bool changed = meant || row.show() != row.default_value;
    require(!asked || !changed || holds(row.needs, table),
            "[{}] {} has no effect: it needs {}",
            table.scope(),
            row.name,
            condition_text(row.needs));
  }
}

}  // namespace dimred
