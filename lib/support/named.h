#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

namespace dimred {

/// The name of a value in a list that has it; std::logic_error where it does not.
template <class Value>
const std::string& listed_name(const std::vector<std::pair<std::string, Value>>& list,
                               const Value& value) {
  const auto found = std::ranges::find(list, value, &std::pair<std::string, Value>::second);
  check(found != list.end(), "a value without a name");
  return found->first;
}

}  // namespace dimred
