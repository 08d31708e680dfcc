#include "support/formatted.h"

namespace dimred {

std::string fill(std::string_view pattern, const std::vector<std::string>& values) {
  std::string text;
  auto value = values.begin();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{' && pattern[i] != '}') {
      text += pattern[i];
      continue;
    }
    if (pattern[i + 1] == pattern[i]) {
      text += pattern[i];
    } else {
      text += *value++;
    }
    ++i;
  }
  return text;
}

}  // namespace dimred
