#include "options/option_values.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "options/toml_letters.h"
#include "support/errors.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred {
namespace {

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
  auto limits = range_text(range);
  if constexpr (std::is_integral_v<Number>) {
    // Where the range has no upper bound, the type has one.
    const bool is_too_large = !value && !text.empty() && std::ranges::all_of(text, is_digit);
    if (is_too_large && range.high >= unbounded)
      limits = formatted("<= {}", std::numeric_limits<Number>::max());
  }
  refuse("needs {}{}{}", noun, limits.empty() ? "" : " ", limits);
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

bool is_truth_word(std::string_view text) {
  return std::ranges::find(truth_words, text, &TruthWord::text) != truth_words.end();
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
  require(!holds_plane_13(text), "needs text without the unassigned characters U+D0000 to U+DFFFF");
  return std::string(text);
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
      out += escape_of(code);
    } else {
      if (letter == '"' || letter == '\\') out += '\\';
      out += letter;
    }
  }
  return out + '"';
}

}  // namespace dimred
