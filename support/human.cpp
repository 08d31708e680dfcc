#include "support/human.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "support/formatted.h"
#include "support/text.h"

namespace dimred {
std::string decimal_text(double value, int digits) {
  std::array<char, 400> text{};  // the longest double has 309 digits before the point
  const auto format = std::chars_format::fixed;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr;
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
  auto value = static_cast<double>(bytes);
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
