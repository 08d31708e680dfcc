#include "checkpoints/steps.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "checkpoints/file_names.h"
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

/// The meanings that an integer in a name may have.
struct Number {
  std::optional<std::int64_t> plain;   // of the digits alone; none of a fraction
  std::optional<std::int64_t> scaled;  // with its unit; none of a fraction of one, beyond 2^63
  char unit = 0;                       // k, m, b or t
  std::string tail;                    // letters behind the unit: tok of 800mtok
  std::size_t length = 0;              // of the digits, their fraction and the unit
  bool grouped = false;                // by threes, with marks between them
  bool paired = false;                 // with a number behind it and _
};

/// Whether letters say what is counted.
bool is_measure(std::string_view letters) {
  if (letters.size() > 2 && letters.ends_with('s')) letters.remove_suffix(1);
  constexpr std::array<std::string_view, 8> words{
      "tok", "token", "img", "image", "sample", "seq", "step", "iter"};
  return std::ranges::find(words, letters) != words.end();
}

/// The length of the groups of three digits, each behind the mark, at a place: 8 of ",000,000"; 0
/// where a group of other length follows.
std::size_t groups_at(std::string_view text, std::size_t place, char mark) {
  auto end = place;
  while (at(text, end) == mark && digits_at(text, end + 1) == 3) end += 4;
  return at(text, end) == mark && is_digit(at(text, end + 1)) ? 0 : end - place;
}

/// Reads the unit and the letters at the number's end.
void read_letters(std::string_view text, Number& number) {
  constexpr std::string_view units = "kmbt";
  auto end = number.length;
  while (is_word(at(text, end)) && !is_digit(text[end])) ++end;
  if (is_digit(at(text, end))) return;  // a hash
  const auto letters = text.substr(number.length, end - number.length);
  if (letters.empty() || is_measure(letters) || units.find(letters[0]) == units.npos) {
    number.tail = letters;
    return;
  }
  number.unit = letters[0];
  number.tail = letters.substr(1);
  ++number.length;
}

/// The value of digits, and of a fraction's, in a power of ten.
std::optional<std::int64_t> value_of(const std::string& whole,
                                     std::string fraction,
                                     std::size_t power) {
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (fraction.size() > power) return {};
  fraction.resize(power, '0');
  return number_in<std::int64_t>(whole + fraction);
}

/// Whether a mark and a digit stand behind a number.
bool is_followed(std::string_view text, const Number& number, char mark) {
  return at(text, number.length) == mark && is_digit(at(text, number.length + 1));
}

/// The integer that a text begins with: 20, 500m, 1.5k, 800mtok, 1,000, and with the mark _ 1_000.
/// None of a fraction, of 1e5, beyond 2^63.
std::optional<Number> number_at(std::string_view text, char mark = ',') {
  const auto first = digits_at(text, 0);
  if (first == 0) return {};
  const auto groups = first <= 3 && text[0] != '0' ? groups_at(text, first, mark) : 0;
  std::string whole(text.substr(0, first + groups));
  std::erase(whole, mark);
  const auto places = at(text, first + groups) == '.' ? digits_at(text, first + groups + 1) : 0;
  Number number{.length = first + groups + (places > 0 ? 1 + places : 0), .grouped = groups > 0};
  const std::string fraction(text.substr(number.length - places, places));
  read_letters(text, number);
  constexpr std::string_view units = "kmbt";
  const auto power = number.unit == 0 ? 0 : 3 * (units.find(number.unit) + 1);
  if (number.unit == 0 && is_followed(text, number, 'e')) return {};
  if (places == 0) number.plain = number_in<std::int64_t>(whole);
  if (places == 0 || number.unit != 0) number.scaled = value_of(whole, fraction, power);
  if (!number.plain && !number.scaled) return {};
  number.paired = is_followed(text, number, '_');
  return number;
}

/// The step in a name, and the part that the names of a series share.
struct NamedStep {
  Number number;
  std::string rest;
  std::optional<std::int64_t> epoch = {};  // of checkpoint_EPOCH_UPDATES
};
using FoundStep = std::optional<NamedStep>;

/// The number behind a word, its plural, and one of "-_=".
FoundStep step_behind(std::string_view name, std::string_view word, char mark = ',') {
  for (auto place = name.find(word); place != name.npos; place = name.find(word, place + 1)) {
    auto rest = name.substr(place + word.size());
    if (word == "iter" && rest.starts_with("ation")) rest.remove_prefix(5);
    if (rest.starts_with('s')) rest.remove_prefix(1);
    const bool underscore = rest.starts_with('_');
    if (!rest.empty() && std::string_view("-_=").find(rest[0]) != rest.npos) rest.remove_prefix(1);
    const auto number = number_at(rest, mark);
    if (!number) continue;
    // fairseq's checkpoint_EPOCH_UPDATES.
    const auto second = rest.substr(number->length);
    const bool pair = underscore && word.starts_with('c') && second.starts_with('_');
    const auto updates = pair ? number_at(second.substr(1)) : std::nullopt;
    if (updates && !is_word(at(second, 1 + updates->length)))
      return NamedStep{*updates, "pair", number->plain};
    return NamedStep{*number, ""};
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
  while (start >= 2 && name[start - 1] == ',' && is_digit(name[start - 2]))
    start = start_of(start - 2);
  const auto number = number_at(name.substr(start));
  if (!number || start + number->length <= end) return {};
  return NamedStep{*number,
                   formatted("{}#{}", name.substr(0, start), name.substr(start + number->length))};
}

using NameList = std::vector<std::string>;
using Values = std::vector<std::int64_t>;

/// Steps, or why names that have some give none, or no order.
struct FoundSteps {
  Values steps;
  std::string conflict;
};

/// The numbers of all names, or none: names that differ elsewhere, too, as by a loss or a hash,
/// have numbers that are no steps.
template <class StepOf>
std::vector<NamedStep> numbers_by(const NameList& names, StepOf step_of) {
  std::vector<NamedStep> numbers;
  for (const auto& name : names) {
    auto found = step_of(name);
    if (!found || (!numbers.empty() && numbers.front().rest != found->rest)) return {};
    numbers.push_back(std::move(*found));
  }
  return numbers;
}

/// The values of numbers. A unit with letters of no measure behind it counts where units differ:
/// 900kfoo and 1mfoo have some, 5best and 6best have none.
FoundSteps valued(const std::vector<NamedStep>& numbers) {
  FoundSteps found;
  if (numbers.empty()) return found;
  const auto& first = numbers.front().number;
  bool units_differ = false;
  for (const auto& [number, rest, epoch] : numbers) {
    units_differ = units_differ || number.unit != first.unit;
    if (number.tail == first.tail) continue;
    found.conflict = formatted(
        "the letters behind their steps differ (\"{}\" and \"{}\")", first.tail, number.tail);
    return found;
  }
  const bool scaled = first.tail.empty() || is_measure(first.tail) || units_differ;
  for (const auto& [number, rest, epoch] : numbers) {
    const auto& value = scaled ? number.scaled : number.plain;
    if (!value) return {};
    found.steps.push_back(*value);
  }
  return found;
}

bool all_differ(const Values& steps) {
  return std::set(steps.begin(), steps.end()).size() == steps.size();
}

/// The mark between groups of digits: _ where 1_000 is no pair of numbers, as all names show.
char mark_of(const NameList& names, std::string_view word) {
  bool grouped = false;
  if (word != "step" && word != "iter") return ',';
  for (const auto& name : names) {
    const auto found = step_behind(name, word, '_');
    if (!found) return ',';
    const auto& number = found->number;
    const bool ungrouped = number.unit == 0 && number.plain.value_or(1000) < 1000;
    if (number.paired || (!number.grouped && !ungrouped)) return ',';
    grouped = grouped || number.grouped;
  }
  return grouped ? '_' : ',';
}

/// The epochs that names have beside their steps; none where one has none.
Values epochs_of(const NameList& names, const std::vector<NamedStep>& numbers) {
  Values epochs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto epoch = numbers[i].epoch;
    if (const auto named = step_behind(names[i], "epoch"); !epoch && named)
      epoch = named->number.plain;
    if (!epoch) return {};
    epochs.push_back(*epoch);
  }
  return epochs;
}

/// Whether a later step is of an earlier epoch.
bool contradict(const Values& steps, const Values& epochs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> both;
  for (std::size_t i = 0; i < epochs.size(); ++i) both.emplace_back(steps[i], epochs[i]);
  std::ranges::sort(both);
  return !std::ranges::is_sorted(both, {}, [](const auto& pair) { return pair.second; });
}

/// `above`: the names of the folders in which they lie.
FoundSteps steps_in(const NameList& names, const NameList& above) {
  constexpr std::array<std::string_view, 5> words{"step", "iter", "checkpoint", "ckpt", "epoch"};
  for (const auto word : words) {
    const char mark = mark_of(names, word);
    const auto numbers =
        numbers_by(names, [&](const auto& name) { return step_behind(name, word, mark); });
    auto found = valued(numbers);
    if (found.steps.empty() && found.conflict.empty()) continue;
    if (word == "epoch" || found.steps.empty()) return found;
    auto epochs = epochs_of(names, numbers);
    if (epochs.empty() && !above.empty()) epochs = epochs_of(above, numbers);
    if (contradict(found.steps, epochs))
      found.conflict = formatted("their order by {} is not their order by epoch", word);
    return found;
  }
  auto found = valued(numbers_by(names, [](const auto& name) { return last_number(name); }));
  return all_differ(found.steps) ? found : FoundSteps();
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

FoundSteps steps_of_paths(const std::vector<fs::path>& paths) {
  for (int level = 0;; ++level) {
    const auto names = names_at(paths, level);
    if (names.empty()) return {};
    const bool differ = names.size() == 1 || !all_equal(names, std::identity());
    if (level > 0 && !differ) continue;
    auto found = steps_in(names, names_at(paths, level + 1));
    if (!found.steps.empty() || !found.conflict.empty()) return found;
    if (!all_equal(names, numbers_in)) return {};
  }
}

/// "stage 1" of the numbers behind stage and phase in a path; empty without any.
std::string stage_of(const fs::path& path) {
  const auto text = lower_case(path.string());
  std::string stages;
  for (const std::string_view word : {"stage", "phase"}) {
    if (const auto number = step_behind(text, word))
      stages +=
          formatted("{}{} {}", stages.empty() ? "" : " ", word, number->number.plain.value_or(0));
  }
  return stages;
}

}  // namespace

Steps steps_of(const std::vector<fs::path>& checkpoints) {
  auto found = steps_of_paths(checkpoints);
  Steps steps{.of = std::move(found.steps), .conflict = std::move(found.conflict)};
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
