#include "support/option_ranges.h"

#include <stdexcept>

#include "support/errors.h"

namespace dimred {

void require_ranges(const OptionTable& table, std::string_view scope) {
  for (const auto& row : table.rows()) {
    const auto value = row.show();
    const bool number = row.kind == OptionKind::integer || row.kind == OptionKind::number;
    if (!number || value.empty()) continue;  // an optional number that is not set
    try {
      row.assign(value);
    } catch (const std::invalid_argument& rule) {
      refuse("[{}] {} {}, received {}", scope, row.name, rule.what(), value);
    }
  }
}

}  // namespace dimred
