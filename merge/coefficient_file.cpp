#include "merge/coefficient_file.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "support/errors.h"
#include "support/list_lines.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::merge {
namespace {

constexpr std::string_view separator = ": ";

std::optional<double> coefficient_in(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

double required_coefficient(std::string_view text, std::string_view place) {
  const auto number = coefficient_in(text);
  require(number.has_value(), "[merge] {} needs a number, received {}", place, printable(text));
  return *number;
}

std::string_view number_text_of(std::string_view line) {
  return trimmed(line.substr(0, line.find('#')));
}

bool are_coefficients(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  std::size_t count = 0;
  for (; words >> word; ++count)
    if (!coefficient_in(word)) return false;
  return count > 0;
}

/// A rule's line without a comment behind its coefficients; a regular expression may have a '#'.
std::string rule_text(const std::string& line) {
  for (auto end = line.find('#'); end != line.npos; end = line.find('#', end + 1)) {
    const auto rule = std::string_view(line).substr(0, end);
    const auto split = rule.rfind(separator);
    if (split != rule.npos && are_coefficients(rule.substr(split + separator.size())))
      return std::string(trimmed(rule));
  }
  return line;
}

/// Whether a line is of a rule, not of one number with a comment.
bool is_rule(std::string_view line) {
  return line.find(separator) != line.npos && !coefficient_in(number_text_of(line));
}

CoefficientRule rule_in(const std::string& line, const std::string& place) {
  const auto [pattern, numbers] =
      checkpoints::split_line(rule_text(line), separator, "[merge] " + place);
  std::istringstream words(numbers);
  std::vector<double> values;
  for (std::string word; words >> word;) values.push_back(required_coefficient(word, place));
  return {checkpoints::NamePattern(pattern, "[merge] " + place), {std::move(values)}, place};
}

void require_sum(const std::vector<double>& values, std::size_t count, std::string_view place) {
  require(values.size() == count,
          "[merge] {} needs one coefficient for each of {} checkpoints, received {}",
          place,
          count,
          values.size());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  constexpr double tolerance = 1e-6;
  require(std::abs(sum - 1) <= tolerance,
          "[merge] {} needs coefficients that sum to one within 1e-6, received a sum of {}",
          place,
          number_text(sum));
}

}  // namespace

void require_coefficients(const GivenCoefficients& given,
                          std::size_t count,
                          std::string_view place) {
  if (given.rules.empty()) require_sum(given.all.weights, count, place);
  for (const auto& rule : given.rules) require_sum(rule.coefficients.weights, count, rule.place);
}

GivenCoefficients read_coefficients(const std::filesystem::path& file, std::size_t count) {
  constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
  GivenCoefficients given;
  for_each_list_line(file, most_bytes, [&](const std::string& line, const std::string& place) {
    const bool first = given.rules.empty() && given.all.weights.empty();
    if (first ? is_rule(line) : !given.rules.empty())
      given.rules.push_back(rule_in(line, place));
    else
      given.all.weights.push_back(required_coefficient(number_text_of(line), place));
  });
  require_coefficients(given, count, formatted("'{}'", file));
  return given;
}

std::vector<std::size_t> rules_of(const std::vector<std::string>& names,
                                  const std::vector<CoefficientRule>& rules,
                                  std::string_view place) {
  std::vector<std::size_t> places;
  for (const auto& name : names) {
    const auto found = std::ranges::find_if(
        rules, [&](const CoefficientRule& rule) { return rule.pattern.searches(name); });
    require(found != rules.end(),
            "[merge] {} needs a line for each tensor, received none for \"{}\"; add a last line "
            "\".: c1 c2 ...\" for all other tensors",
            place,
            printable(name));
    places.push_back(found - rules.begin());
  }
  return places;
}

}  // namespace dimred::merge
