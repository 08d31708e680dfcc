#pragma once

#include <string_view>

#include "support/options.h"

namespace dimred {

/// Throws std::invalid_argument("[scope] name needs ..., received ...") for the first number of the
/// table that lies outside its row's range: for options that did not come through parse().
void require_ranges(const OptionTable& table, std::string_view scope);

}  // namespace dimred
