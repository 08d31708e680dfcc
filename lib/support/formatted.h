#pragma once

#include <concepts>
#include <cstdint>
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

/// The path as UTF-8 on one line, for messages: other bytes and control characters as \xNN.
std::string path_text(const std::filesystem::path& path);

/// `value` as operator<< prints it; a path as path_text() has it.
template <class Value>
std::string printed(const Value& value) {
  if constexpr (std::convertible_to<const Value&, std::string_view>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return path_text(value);
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

std::string count_text(std::int64_t count);          // 2,560,000
std::string bytes_text(std::int64_t bytes);          // 512 B, 32.0 MB (1 MB = 10^6 bytes)
std::string duration_text(double seconds);           // 3.2 ms, 0.42 s, 12 s, 3 min 05 s, 2 h 03 min
std::string decimal_text(double value, int digits);  // fixed: 0.3142
std::string significant_text(double value, int digits);  // as %g: 0.314, 3.14e-05

/// Shortest text that reads back as the same double: 0.1, 1e-05, 64.
std::string number_text(double value);

}  // namespace dimred
