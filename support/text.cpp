#include "support/text.h"

#include <algorithm>

namespace dimred {

std::string_view trimmed(std::string_view text) {
  constexpr auto white = " \t\r";
  const auto first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (auto& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

std::string padded(std::int64_t number, std::size_t digits) {
  const auto text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

}  // namespace dimred
