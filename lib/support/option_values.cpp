#include "support/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "support/errors.h"
#include "support/locations.h"
#include "support/text.h"
#include "support/toml_letters.h"

namespace dimred {
namespace {

constexpr double unbounded = 1e300;

struct TruthWord {
  std::string_view text;
  bool value;
};
constexpr std::array truth_words{TruthWord{"true", true},
                                 TruthWord{"True", true},
                                 TruthWord{"1", true},
                                 TruthWord{"yes", true},
                                 TruthWord{"on", true},
                                 TruthWord{"false", false},
                                 TruthWord{"False", false},
                                 TruthWord{"0", false},
                                 TruthWord{"no", false},
                                 TruthWord{"off", false}};

template <class Number>
Number number_of(std::string_view text, const Range& range, std::string_view noun) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto value = number_in<Number>(text);
  if (value && contains(range, *value)) return *value;
  const auto limits = range_text(range);
  refuse("needs {}{}{}", noun, limits.empty() ? "" : " ", limits);
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

constexpr std::string_view hex = "0123456789ABCDEF";

void append_escaped(std::string& out, unsigned code) {
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
/// too, line separators, and marks that turn the direction of the text.
bool is_obeyed(std::string_view character) {
  const auto code = code_point(character);
  return is_control(code) || (code >= 0x80 && code <= 0x9F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

/// Characters that are `hidden` as \uNNNN, bytes that are no UTF-8 as \xNN; "..." stands for what
/// goes beyond `longest` bytes.
template <class Hidden>
std::string escaped(std::string_view text, const Hidden& hidden, std::size_t longest = -1) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const auto length = utf8_length(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(character[0]);
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else if (hidden(character)) {
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
Range positive(double high) { return {0, high, true, false}; }
Range less_than(double high) { return {0, high, false, true}; }
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
  return number_of<std::int64_t>(text, range, "a whole number");
}

double parse_number(std::string_view text, const Range& range) {
  return number_of<double>(text, range, "a number");
}

bool parse_boolean(std::string_view text) {
  const auto* const word = std::ranges::find(truth_words, text, &TruthWord::text);
  require(word != truth_words.end(), "needs true or false");
  return word->value;
}

std::vector<double> parse_numbers(std::string_view text, const Range& range) {
  std::vector<double> values;
  if (trimmed(text).empty()) return values;
  while (true) {
    const auto comma = text.find(',');
    values.push_back(number_of<double>(text.substr(0, comma), range, "comma-separated numbers"));
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

std::string parse_text(std::string_view text) {
  // config.toml must be able to hold it, and TOML is UTF-8.
  require(utf8_text(text) == text, "needs UTF-8 text");
  require(!holds_plane_13(text), "needs valid Unicode characters");
  return std::string(text);
}

std::string utf8_text(std::string_view text) {
  return escaped(text, [](std::string_view) { return false; });
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
    const auto code = static_cast<unsigned char>(letter);
    if (is_control(code)) {
      append_escaped(out, code);
    } else {
      if (letter == '"' || letter == '\\') out += '\\';
      out += letter;
    }
  }
  return out + '"';
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 100;
  return text.empty() ? "\"\"" : escaped(without_credentials(text), is_obeyed, longest);
}

std::string terminal_text(std::string_view text, std::string_view kept) {
  return escaped(text, [kept](std::string_view character) {
    return is_obeyed(character) && kept.find(character) == kept.npos;
  });
}

}  // namespace dimred
