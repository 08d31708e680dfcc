#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dimred {

/// "a, b,c" -> a, b, c: what stands between commas, without blanks; of an empty text nothing.
inline std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts(list.empty() ? 0 : 1);
  for (const char letter : list) {
    if (letter == ',') parts.emplace_back();
    if (letter != ',' && letter != ' ') parts.back() += letter;
  }
  return parts;
}

}  // namespace dimred
