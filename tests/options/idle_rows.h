#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "options/effects.h"
#include "options/options.h"

// What a test of options without effect needs: other values of a row, and whether they are refused.
namespace dimred {

/// Valid texts of the row, other than its present value.
inline std::vector<std::string> other_values(const Option& row) {
  auto texts = row.choices;
  if (row.kind == OptionKind::boolean) texts = {"true", "false"};
  if (row.kind == OptionKind::integer) texts = {"1", "2", "3"};
  if (row.kind == OptionKind::number) texts = {"0.003", "0.3", "0.7", "3", "-0.3"};
  if (row.kind == OptionKind::numbers) texts = {"1", "1,2"};
  std::vector<std::string> others;
  const auto before = row.value();
  for (const auto& text : texts) {
    try {
      row.assign(text);
    } catch (const std::invalid_argument&) {  // out of its range
      continue;
    }
    if (row.value() != before) others.push_back(text);
  }
  if (!before.empty()) row.assign(before);
  return others;
}

inline bool is_refused(const OptionTable& table) {
  try {
    require_effects(table);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace dimred
