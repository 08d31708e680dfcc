#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dimred {

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// The environment variable; empty where it is not set.
std::string environment_text(const char* name);

/// Returns the text before the first line end: libraries' messages go on with a stack.
std::string head_line(std::string_view text);

/// Returns true for 0 to 9, whatever the locale.
constexpr bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// With a-z in the place of A-Z, whatever the locale; other bytes stay.
std::string lower_case(std::string_view text);

/// ", which is a Git LFS pointer, ..." or ", which is an HTML page, ..." where a file begins as
/// what stands in the place of its content; else empty.
std::string placeholder_remark(std::string_view first_bytes);

/// `number` >= 0 with zeros in front, `digits` long at least: names sort as their numbers do.
std::string padded(std::int64_t number, std::size_t digits);

/// The number that all of the text is; nullopt where it is none, or beyond the type.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

/// Joins `text` of each item (by default the item, a text) with `separator`.
template <class Items, class Text = std::identity>
std::string joined(const Items& items, std::string_view separator, const Text& text = {}) {
  std::string all;
  std::string_view before;
  for (const auto& item : items) {
    all.append(before).append(text(item));
    before = separator;
  }
  return all;
}

/// Returns `text` of each item, as joined() takes it.
template <class Items, class Text>
std::vector<std::string> texts_of(const Items& items, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.emplace_back(std::invoke(text, item));
  return texts;
}

/// "a, b, c".
inline std::string name_list(const std::vector<std::string>& names) { return joined(names, ", "); }

/// Returns "a, b, c"; of more than `most` names the first ones: "a, b, c, ...".
std::string first_names(const std::vector<std::string>& names, std::size_t most);

/// Returns first_names() with the number of all where some are left out: "a, b, c, ... (9 in all)".
std::string first_of_all(const std::vector<std::string>& names, std::size_t most);

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
