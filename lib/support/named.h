#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
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

/// The value that a list has under a name; nullopt where it has none.
template <class Value>
std::optional<Value> named_value(const std::vector<std::pair<std::string, Value>>& list,
                                 std::string_view name) {
  const auto found = std::ranges::find(list, name, &std::pair<std::string, Value>::first);
  return found == list.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace dimred
