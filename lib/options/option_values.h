#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

// Texts to values and back, as options and their files need them: whole text or nothing, finite,
// overflow-checked, locale-independent, and printed so that reading gives the same bits.
namespace dimred {

/// A limit of a range that has none: all finite numbers are in it.
inline constexpr double unbounded = std::numeric_limits<double>::max();

/// Closed or half-open range of a number.
struct Range {
  double low = -unbounded;
  double high = unbounded;
  bool low_open = false;
  bool high_open = false;
};
Range at_least(double low);
Range positive(double high = unbounded);      // (0, high]
Range between(double low, double high);       // [low, high]
Range between_open(double low, double high);  // (low, high)
Range less_than(double high);                 // [0, high)

/// NaN is in no range, infinity beyond the widest.
bool contains(const Range& range, double value);

/// ">= 1", "> 0", "in [0, 1)"; empty for any number.
std::string range_text(const Range& range);

// Each throws std::invalid_argument whose text is the rule alone: "needs a whole number >= 1".
std::int64_t parse_integer(std::string_view text, const Range& range);
double parse_number(std::string_view text, const Range& range);
bool parse_boolean(std::string_view text);
/// Whether parse_boolean() reads the text.
bool is_truth_word(std::string_view text);
std::vector<double> parse_numbers(std::string_view text, const Range& range);
std::string parse_text(std::string_view text);

/// Returns the number as a TOML float: 64.0.
std::string toml_number(double value);
/// A TOML basic string, quoted and escaped.
std::string toml_string(std::string_view text);

}  // namespace dimred
