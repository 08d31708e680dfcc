#include "checkpoints/steps.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "checkpoints/artifact.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view digits = "0123456789";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_word(char letter) { return is_digit(letter) || (letter >= 'a' && letter <= 'z'); }

/// The letter at a place, 0 behind the end.
char at(std::string_view text, std::size_t place) { return place < text.size() ? text[place] : 0; }

std::size_t digits_at(std::string_view text, std::size_t place) {
  return std::min(text.find_first_not_of(digits, place), text.size()) - place;
}

struct Number {
  std::int64_t value = 0;
  std::size_t length = 0;  // with its unit
};

/// Powers of ten that the unit at a place stands for; 0: there is none.
std::size_t power_at(std::string_view text, std::size_t place) {
  constexpr std::string_view units = "kmbt";
  const auto unit = units.find(at(text, place));
  return unit == units.npos || is_word(at(text, place + 1)) ? 0 : 3 * (unit + 1);
}

/// The integer that a text begins with: 20, 500m, 1.5k. None of a fraction, of 1e5, beyond 2^63.
std::optional<Number> number_at(std::string_view text) {
  const auto whole = digits_at(text, 0);
  if (whole == 0) return {};
  const auto places = at(text, whole) == '.' ? digits_at(text, whole + 1) : 0;
  const auto end = places > 0 ? whole + 1 + places : whole;
  const auto power = power_at(text, end);
  std::string fraction(text.substr(end - places, places));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  const bool exponent = power == 0 && at(text, end) == 'e' && is_digit(at(text, end + 1));
  if (exponent || (power == 0 && places > 0) || fraction.size() > power) return {};
  fraction.resize(power, '0');
  const auto value = number_in<std::int64_t>(std::string(text.substr(0, whole)) + fraction);
  if (!value) return {};
  return Number{*value, power > 0 ? end + 1 : end};
}

/// The step in a name, and the part that the names of a series share.
struct NamedStep {
  std::int64_t step = 0;
  std::string rest;
};
using FoundStep = std::optional<NamedStep>;

/// The number behind a word, its plural, and one of "-_=".
FoundStep step_behind(std::string_view name, std::string_view word) {
  for (auto place = name.find(word); place != name.npos; place = name.find(word, place + 1)) {
    auto rest = name.substr(place + word.size());
    if (word == "iter" && rest.starts_with("ation")) rest.remove_prefix(5);
    if (rest.starts_with('s')) rest.remove_prefix(1);
    const bool underscore = rest.starts_with('_');
    if (!rest.empty() && std::string_view("-_=").find(rest[0]) != rest.npos) rest.remove_prefix(1);
    const auto number = number_at(rest);
    if (!number) continue;
    // fairseq's checkpoint_EPOCH_UPDATES.
    const auto second = rest.substr(number->length);
    const bool pair = underscore && word.starts_with('c') && second.starts_with('_');
    const auto updates = pair ? number_at(second.substr(1)) : std::nullopt;
    if (updates && !is_word(at(second, 1 + updates->length)))
      return NamedStep{updates->value, "pair"};
    return NamedStep{number->value, ""};
  }
  return {};
}

/// The last number of the name.
FoundStep last_number(std::string_view name) {
  const auto end = name.find_last_of(digits);
  if (end == name.npos) return {};
  const auto start_of = [&](std::size_t last) { return name.find_last_not_of(digits, last) + 1; };
  auto start = start_of(end);
  if (start >= 2 && name[start - 1] == '.' && is_digit(name[start - 2]))
    start = start_of(start - 2);
  const auto number = number_at(name.substr(start));
  if (!number || start + number->length <= end) return {};
  return NamedStep{number->value,
                   formatted("{}#{}", name.substr(0, start), name.substr(start + number->length))};
}

using NameList = std::vector<std::string>;
using Values = std::vector<std::int64_t>;

/// The steps of all names, or none: names that differ elsewhere, too, as by a loss or a hash, have
/// numbers that are no steps.
template <class StepOf>
Values steps_by(const NameList& names, StepOf step_of) {
  Values steps;
  std::optional<std::string> rest;
  for (const auto& name : names) {
    const auto found = step_of(name);
    if (!found || (rest && *rest != found->rest)) return {};
    steps.push_back(found->step);
    rest = found->rest;
  }
  return steps;
}

bool all_differ(const Values& steps) {
  return std::set(steps.begin(), steps.end()).size() == steps.size();
}

Values steps_in(const NameList& names) {
  constexpr std::array<std::string_view, 5> words{"step", "iter", "checkpoint", "ckpt", "epoch"};
  for (const auto word : words) {
    auto steps = steps_by(names, [&](const auto& name) { return step_behind(name, word); });
    if (!steps.empty()) return steps;
  }
  auto steps = steps_by(names, [](const auto& name) { return last_number(name); });
  return all_differ(steps) ? steps : Values();
}

/// The digits of a name.
std::string numbers_in(const std::string& name) {
  std::string numbers;
  for (const char letter : name) numbers += is_digit(letter) ? letter : ' ';
  return std::string(trimmed(numbers));
}

template <class Items, class Text>
bool all_equal(const Items& items, Text text) {
  return std::ranges::all_of(items,
                             [&](const auto& item) { return text(item) == text(items.front()); });
}

/// The last parts of the paths, `level` folders above; empty where a path has no more.
NameList names_at(std::vector<fs::path> paths, int level) {
  NameList names;
  for (auto& path : paths) {
    for (int i = 0; i < level; ++i) path = path.parent_path();
    if (!path.has_relative_path() || !path.has_filename()) return {};
    names.push_back(lower_case(bare_name(path)));
  }
  return names;
}

Values steps_of_paths(const std::vector<fs::path>& paths) {
  for (int level = 0;; ++level) {
    const auto names = names_at(paths, level);
    if (names.empty()) return {};
    const bool differ = names.size() == 1 || !all_equal(names, std::identity());
    if (level > 0 && !differ) continue;
    if (auto steps = steps_in(names); !steps.empty()) return steps;
    if (!all_equal(names, numbers_in)) return {};
  }
}

/// "stage 1" of the numbers behind stage and phase in a path; empty without any.
std::string stage_of(const fs::path& path) {
  const auto text = lower_case(path.string());
  std::string stages;
  for (const std::string_view word : {"stage", "phase"}) {
    if (const auto number = step_behind(text, word))
      stages += formatted("{}{} {}", stages.empty() ? "" : " ", word, number->step);
  }
  return stages;
}

}  // namespace

Steps steps_of(const std::vector<fs::path>& checkpoints) {
  Steps steps{.of = steps_of_paths(checkpoints)};
  if (const auto other = std::ranges::find_if(
          checkpoints,
          [&](const auto& path) { return stage_of(path) != stage_of(checkpoints.front()); });
      other != checkpoints.end()) {
    const auto first = stage_of(checkpoints.front());
    const auto second = stage_of(*other);
    if (!first.empty() && !second.empty()) steps.stages = formatted("{} and {}", first, second);
  }
  steps.counted = steps.of.empty() || !steps.stages.empty();
  if (!steps.counted) return steps;
  steps.of.resize(checkpoints.size());
  std::iota(steps.of.begin(), steps.of.end(), 1);
  return steps;
}

}  // namespace dimred::checkpoints
