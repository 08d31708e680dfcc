#include "support/formatted.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "support/text.h"
#include "support/utf8.h"

namespace dimred {

std::string path_text(const std::filesystem::path& path) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string text;
  for (const char letter : utf8_text(path.string())) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 32 || code == 127) {
      text += {'\\', 'x', hex[code >> 4], hex[code & 15]};
    } else {
      text += letter;
    }
  }
  return text;
}

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

namespace {

std::string digits_of(double value, std::chars_format format, int digits) {
  std::array<char, 400> text{};  // the longest double has 309 digits before the point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr;
  return {text.data(), end};
}

}  // namespace

std::string decimal_text(double value, int digits) {
  return digits_of(value, std::chars_format::fixed, digits);
}

std::string significant_text(double value, int digits) {
  return digits_of(value, std::chars_format::general, digits);
}

std::string number_text(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string count_text(std::int64_t count) {
  auto text = std::to_string(count);
  const std::size_t digits_begin = count < 0 ? 1 : 0;
  for (auto at = text.size(); at > digits_begin + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = bytes;
  std::size_t unit = 0;
  // 999.95 would print as 1000.0 of the smaller unit.
  while (std::abs(value) >= (unit == 0 ? 1000 : 999.95) && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return formatted("{} {}", decimal_text(value, unit == 0 ? 0 : 1), units[unit]);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.0995) return formatted("{} ms", decimal_text(seconds * 1e3, 1));
  if (seconds < 9.995) return formatted("{} s", decimal_text(seconds, 2));
  if (seconds >= 1e15) return "?";
  const auto whole = std::llround(seconds);
  if (whole < 60) return formatted("{} s", whole);
  if (whole < 3600) return formatted("{} min {} s", whole / 60, padded(whole % 60, 2));
  return formatted("{} h {} min", count_text(whole / 3600), padded(whole % 3600 / 60, 2));
}

}  // namespace dimred
