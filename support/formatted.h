#pragma once

#include <concepts>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dimred {

/// A text with a {} for each of Count values; {{ and }} stand for braces. Another number of {} does
/// not compile. (Not fmt: torch's headers bring one version, the distributions another.)
template <std::size_t Count>
struct FormatString {
  std::string_view text;

  template <std::convertible_to<std::string_view> Literal>
  consteval FormatString(const Literal& literal)
      : text(literal) {  // NOLINT: a literal is a pattern
    std::size_t places = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '{' && text[i] != '}') continue;
      const char second = i + 1 < text.size() ? text[i + 1] : ' ';
      if (text[i] == '{' && second == '}') ++places;
      if (second != text[i] && !(text[i] == '{' && second == '}')) throw "a brace without its pair";
      ++i;
    }
    if (places != Count) throw "not as many {} as values";
  }
};

/// `value` as operator<< prints it; a path without the quotes.
template <class Value>
std::string printed(const Value& value) {
  if constexpr (std::convertible_to<const Value&, std::string_view>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return value.string();
  } else {
    std::ostringstream out;
    out << value;
    return out.str();
  }
}

/// `pattern` with each {} replaced by the next of `values`.
std::string fill(std::string_view pattern, const std::vector<std::string>& values);

template <class... Values>
std::string formatted(std::type_identity_t<FormatString<sizeof...(Values)>> pattern,
                      const Values&... values) {
  return fill(pattern.text, {printed(values)...});
}

}  // namespace dimred
