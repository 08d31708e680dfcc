#include "support/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "support/errors.h"
#include "support/locations.h"
#include "support/text.h"

namespace dimred {
namespace {

constexpr double unbounded = 1e300;

std::string rule(std::string_view noun, const Range& range) {
  const auto limits = range_text(range);
  return formatted("needs {}{}{}", noun, limits.empty() ? "" : " ", limits);
}

template <class Number>
bool convert(std::string_view text, Number& value) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// The Unicode standard's table 3-7: sequences by their first byte. Overlong forms, surrogates and
/// code points above U+10FFFF are told by the second one.
struct Utf8Row {
  unsigned char first, last;
  unsigned char least_second, most_second;
  std::size_t length;
};
constexpr std::array<Utf8Row, 8> utf8_rows{{{0xC2, 0xDF, 0x80, 0xBF, 2},
                                            {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                            {0xE1, 0xEC, 0x80, 0xBF, 3},
                                            {0xED, 0xED, 0x80, 0x9F, 3},
                                            {0xEE, 0xEF, 0x80, 0xBF, 3},
                                            {0xF0, 0xF0, 0x90, 0xBF, 4},
                                            {0xF1, 0xF3, 0x80, 0xBF, 4},
                                            {0xF4, 0xF4, 0x80, 0x8F, 4}}};

/// Bytes of the UTF-8 sequence that `text` begins with; 0 when it is malformed.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const auto* const row = std::ranges::find_if(
      utf8_rows, [&](const Utf8Row& r) { return byte(0) >= r.first && byte(0) <= r.last; });
  if (row == utf8_rows.end() || text.size() < row->length) return 0;
  if (byte(1) < row->least_second || byte(1) > row->most_second) return 0;
  for (std::size_t i = 2; i < row->length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return row->length;
}

/// The code point of a well-formed UTF-8 sequence; of four bytes: none that matters here.
unsigned code_point(std::string_view character) {
  const auto bits = [&](std::size_t i) { return static_cast<unsigned char>(character[i]) & 0x3FU; };
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  if (character.size() == 2) return (first & 0x1FU) << 6 | bits(1);
  if (character.size() == 3) return (first & 0x0FU) << 12 | bits(1) << 6 | bits(2);
  return 0x10000;
}

void append_escaped(std::string& out, unsigned code) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  if (code == '\n') {
    out += "\\n";
  } else if (code == '\t') {
    out += "\\t";
  } else {
    out += {'\\', 'u', hex[code >> 12], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
  }
}

bool is_control(unsigned code) { return code < 0x20 || code == 0x7F; }

/// Characters that a terminal obeys instead of showing them: control characters, the eight-bit ones
/// too, line separators, and those that turn the direction of the text around.
bool is_obeyed(unsigned code) {
  return is_control(code) || (code >= 0x80 && code <= 0x9F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

void append_byte(std::string& out, unsigned char byte) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
}

/// Characters that a terminal obeys as \uNNNN unless they are `kept`, bytes that are no UTF-8 as
/// \xNN; "..." stands for what goes beyond `longest` bytes.
std::string escaped(std::string_view text, std::string_view kept, std::size_t longest) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const auto length = utf8_length(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0) {
      append_byte(out, static_cast<unsigned char>(character[0]));
    } else if (is_obeyed(code_point(character)) && kept.find(character) == kept.npos) {
      append_escaped(out, code_point(character));
    } else {
      out += character;
    }
  }
  return out;
}

}  // namespace

bool contains(const Range& range, double value) {
  const bool above = range.low_open ? value > range.low : value >= range.low;
  const bool below = range.high_open ? value < range.high : value <= range.high;
  return above && below;
}

Range at_least(double low) { return {low, unbounded, false, false}; }
Range positive() { return {0, unbounded, true, false}; }
Range between(double low, double high) { return {low, high, false, false}; }
Range between_open(double low, double high) { return {low, high, true, true}; }

std::string range_text(const Range& range) {
  const bool low = range.low > -unbounded, high = range.high < unbounded;
  if (low && high) {
    return formatted("in {}{}, {}{}",
                     range.low_open ? '(' : '[',
                     number_text(range.low),
                     number_text(range.high),
                     range.high_open ? ')' : ']');
  }
  if (low) return formatted("{}{}", range.low_open ? "> " : ">= ", number_text(range.low));
  if (high) return formatted("{}{}", range.high_open ? "< " : "<= ", number_text(range.high));
  return {};
}

std::int64_t parse_integer(std::string_view text, const Range& range) {
  std::int64_t value = 0;
  if (!convert(text, value) || !contains(range, static_cast<double>(value))) {
    throw std::invalid_argument(rule("a whole number", range));
  }
  return value;
}

double parse_number(std::string_view text, const Range& range) {
  double value = 0;
  if (!convert(text, value) || !contains(range, value)) {
    throw std::invalid_argument(rule("a number", range));
  }
  return value;
}

bool parse_boolean(std::string_view text) {
  for (const auto* word : {"true", "True", "1", "yes", "on"}) {
    if (text == word) return true;
  }
  for (const auto* word : {"false", "False", "0", "no", "off"}) {
    if (text == word) return false;
  }
  throw std::invalid_argument("needs true or false");
}

std::vector<double> parse_numbers(std::string_view text, const Range& range) {
  std::vector<double> values;
  if (trimmed(text).empty()) return values;
  while (true) {
    const auto comma = text.find(',');
    double value = 0;
    if (!convert(text.substr(0, comma), value) || !contains(range, value)) {
      throw std::invalid_argument(rule("comma-separated numbers", range));
    }
    values.push_back(value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

std::string parse_text(std::string_view text) {
  // config.toml must be able to hold it, and TOML is UTF-8.
  for (auto rest = text; !rest.empty();) {
    const auto length = utf8_length(rest);
    if (length == 0) throw std::invalid_argument("needs UTF-8 text");
    rest.remove_prefix(length);
  }
  return std::string(text);
}

std::string utf8_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto length = utf8_length(text);
    if (length == 0) {
      append_byte(out, static_cast<unsigned char>(text[0]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string number_text(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string toml_number(double value) {
  auto text = number_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (is_control(static_cast<unsigned char>(letter))) {
      append_escaped(out, static_cast<unsigned char>(letter));
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 100;
  return text.empty() ? "\"\"" : escaped(without_credentials(text), "", longest);
}

std::string terminal_text(std::string_view text, std::string_view kept) {
  return escaped(text, kept, std::string_view::npos);
}

}  // namespace dimred
