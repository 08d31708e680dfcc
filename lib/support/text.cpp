#include "support/text.h"

#include <algorithm>
#include <cstdlib>
#include <ranges>

namespace dimred {

std::string_view trimmed(std::string_view text) {
  constexpr auto white = " \t\r";
  const auto first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

std::string environment_text(const char* name) {
  // Programs of ours set variables at their start and before a run's first step, when no other
  // thread is here.
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::string head_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (auto& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

std::string placeholder_remark(std::string_view first_bytes) {
  const auto start = lower_case(trimmed(first_bytes.substr(0, 64)));
  if (start.starts_with("version https://git-lfs"))
    return ", which is a Git LFS pointer; run `git lfs pull` in its repository to fetch the file";
  const bool page = start.starts_with("<!doctype") || start.starts_with("<html");
  return page ? ", which is an HTML page, perhaps from a download that failed" : "";
}

std::string padded(std::int64_t number, std::size_t digits) {
  const auto text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

std::string first_names(const std::vector<std::string>& names, std::size_t most) {
  return joined(std::views::take(names, most), ", ") + (names.size() > most ? ", ..." : "");
}

std::string first_of_all(const std::vector<std::string>& names, std::size_t most) {
  const auto first = first_names(names, most);
  return names.size() > most ? first + " (" + std::to_string(names.size()) + " in all)" : first;
}

}  // namespace dimred
