#include "checkpoints/steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoints/file_names.h"
#include "checkpoints/step_names.h"
#include "support/errors.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view digits = "0123456789";
constexpr std::string_view units = "kmbt";

bool is_word(char letter) { return is_digit(letter) || (letter >= 'a' && letter <= 'z'); }

/// Whether a byte is of a letter: of ASCII, or of any character beyond it.
bool is_letter(char byte) {
  return (is_word(byte) && !is_digit(byte)) || static_cast<unsigned char>(byte) >= 0x80;
}

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
  std::string apart;                   // letters of a unit behind a mark: k of 900_k
  std::string within;                  // all of a number with a letter between digits: 1k5
  std::size_t length = 0;              // of the digits, their fraction and the unit
  bool grouped = false;                // by threes, with marks between them
  bool paired = false;                 // with a number behind it and _

  /// The letters by which numbers are told apart.
  const std::string& letters() const { return tail.empty() ? apart : tail; }
};

/// Whether letters say what is counted.
bool is_measure(std::string_view letters) {
  if (letters.size() > 2 && letters.ends_with('s')) letters.remove_suffix(1);
  constexpr std::array<std::string_view, 8> words{
      "tok", "token", "img", "image", "sample", "seq", "step", "iter"};
  return std::ranges::find(words, letters) != words.end();
}

/// The length of the groups of three digits, each behind the mark, at a place: 8 of ",000,000"; 0
/// where a group of other length follows, or behind blanks a letter: 1 512px.
std::size_t groups_at(std::string_view text, std::size_t place, char mark) {
  auto end = place;
  while (at(text, end) == mark && digits_at(text, end + 1) == 3) end += 4;
  if (mark == ' ' && is_word(at(text, end))) return 0;
  return at(text, end) == mark && is_digit(at(text, end + 1)) ? 0 : end - place;
}

/// The length of a power of ten at a place, e5 or e+05; 0 where a name has none.
std::size_t power_at(std::string_view text, std::size_t place) {
  if (at(text, place) != 'e') return 0;
  const std::size_t mark = at(text, place + 1) == '+' ? 2 : 1;
  const auto count = digits_at(text, place + mark);
  return count == 0 ? 0 : mark + count;
}

bool is_unit(char letter) { return letter != 0 && units.find(letter) != units.npos; }

std::string_view letters_at(std::string_view text, std::size_t place) {
  auto end = place;
  while (is_letter(at(text, end))) ++end;
  return text.substr(place, end - place);
}

/// The letters of a unit, and of what is counted, behind one of "-_. " and the number.
std::string_view unit_apart(std::string_view text, const Number& number) {
  const char mark = at(text, number.length);
  if (mark == 0 || std::string_view("-_. ").find(mark) == std::string_view::npos) return {};
  const auto letters = letters_at(text, number.length + 1);
  const auto end = number.length + 1 + letters.size();
  const bool whole = !letters.empty() && is_unit(letters[0]) && !is_digit(at(text, end));
  return whole && (letters.size() == 1 || is_measure(letters.substr(1))) ? letters
                                                                         : std::string_view();
}

/// Reads the unit and the letters at the number's end.
void read_letters(std::string_view text, Number& number) {
  const auto letters = letters_at(text, number.length);
  const auto end = number.length + letters.size();
  const bool ascii = std::ranges::all_of(letters, is_word);
  if (is_digit(at(text, end)) && ascii) {
    // A hash, or 1k5 and 2p5: a unit, or a point, between digits.
    if (letters.size() == 1 && (is_unit(letters[0]) || letters[0] == 'p'))
      number.within = text.substr(0, end + digits_at(text, end));
    return;
  }
  if (letters.empty()) number.apart = unit_apart(text, number);
  if (letters.empty() || !ascii || is_measure(letters) || !is_unit(letters[0])) {
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

/// The power of ten that follows a number's digits: 5 of e5, 3 of k. The number ends behind the
/// power. None beyond 2^63, and of a hash.
std::optional<std::size_t> read_power(std::string_view text, Number& number) {
  const auto length = power_at(text, number.length);
  if (length == 0) {
    read_letters(text, number);
    return number.unit == 0 ? 0 : 3 * (units.find(number.unit) + 1);
  }
  const auto last = text.substr(0, number.length + length).find_last_not_of(digits);
  const auto power =
      number_in<std::size_t>(text.substr(last + 1, number.length + length - last - 1));
  number.length += length;
  constexpr std::size_t most = 18;
  return is_word(at(text, number.length)) || power.value_or(most + 1) > most ? std::nullopt : power;
}

/// Sets the integers that digits stand for, with the power of ten behind them and without.
void set_values(const std::string& whole,
                const std::string& fraction,
                std::size_t power,
                bool scientific,
                Number& number) {
  if (fraction.empty() || scientific || number.unit != 0)
    number.scaled = value_of(whole, fraction, power);
  if (scientific) number.plain = number.scaled;
  if (fraction.empty() && !scientific) number.plain = number_in<std::int64_t>(whole);
}

/// The integer that a text begins with: 20, 500m, 1.5k, 800mtok, 9e5, 1,000, 1'000, and with
/// another mark 1_000. None of a fraction, beyond 2^63.
std::optional<Number> number_at(std::string_view text, char mark = ',') {
  const auto first = digits_at(text, 0);
  if (first == 0) return {};
  const char next = at(text, first);
  const char between = next == ',' || next == '\'' ? next : mark;
  const auto groups = first <= 3 && text[0] != '0' ? groups_at(text, first, between) : 0;
  std::string whole(text.substr(0, first + groups));
  std::erase(whole, between);
  const auto places = at(text, first + groups) == '.' ? digits_at(text, first + groups + 1) : 0;
  Number number{.length = first + groups + (places > 0 ? 1 + places : 0), .grouped = groups > 0};
  const std::string fraction(text.substr(number.length - places, places));
  const bool scientific = power_at(text, number.length) > 0;
  const auto power = read_power(text, number);
  if (!power) return {};
  set_values(whole, fraction, *power, scientific, number);
  if (!number.plain && !number.scaled) return {};
  number.paired = is_followed(text, number, mark);
  return number;
}

/// The step in a name, and the part that the names of a series share.
struct NamedStep {
  Number number;
  std::string rest;
  std::size_t begin = 0;                   // of the number in the name
  std::size_t end = 0;                     // behind the number
  std::optional<std::int64_t> epoch = {};  // of checkpoint_EPOCH_UPDATES
};
using FoundStep = std::optional<NamedStep>;

/// The text behind a word at a place, its plural, and one of "-_= ".
std::string_view text_behind(std::string_view name, std::string_view word, std::size_t place) {
  auto rest = name.substr(place + word.size());
  if (word == "iter" && rest.starts_with("ation")) rest.remove_prefix(5);
  if (rest.starts_with('s')) rest.remove_prefix(1);
  if (!rest.empty() && std::string_view("-_= ").find(rest[0]) != rest.npos) rest.remove_prefix(1);
  return rest;
}

FoundStep step_behind(std::string_view name, std::string_view word, char mark = ',') {
  for (auto place = name.find(word); place != name.npos; place = name.find(word, place + 1)) {
    const auto rest = text_behind(name, word, place);
    const auto number = number_at(rest, mark);
    if (!number) continue;
    const auto begin = name.size() - rest.size();
    const auto end = begin + number->length;
    // fairseq's checkpoint_EPOCH_UPDATES.
    const bool pair = name[begin - 1] == '_' && word.starts_with('c') && at(name, end) == '_';
    const auto updates = pair ? number_at(name.substr(end + 1)) : std::nullopt;
    if (updates && !is_word(at(name, end + 1 + updates->length)))
      return NamedStep{*updates, "pair", begin, end + 1 + updates->length, number->plain};
    return NamedStep{*number, "", begin, end};
  }
  return {};
}

/// Returns the place at which a number begins, with its groups and fraction, that ends at `last`.
std::size_t start_of(std::string_view name, std::size_t last) {
  const auto run = [&](std::size_t end) { return name.find_last_not_of(digits, end) + 1; };
  const auto goes_on = [&](std::size_t start, std::string_view marks) {
    return start >= 2 && marks.find(name[start - 1]) != marks.npos && is_digit(name[start - 2]);
  };
  auto start = run(last);
  if (goes_on(start, ".")) start = run(start - 2);
  while (goes_on(start, ",'")) start = run(start - 2);
  return start;
}

/// Returns the place at which the last number of a name begins: the 9 of 9e5, the 1 of 1.0e+05, the
/// 5 of v9e5.
std::size_t start_of_last(std::string_view name, std::size_t last) {
  const auto start = start_of(name, last);
  const auto sign = start >= 1 && name[start - 1] == '+' ? std::size_t{1} : 0;
  if (start < sign + 2 || name[start - sign - 1] != 'e' || !is_digit(name[start - sign - 2]))
    return start;
  const auto whole = start_of(name, start - sign - 2);
  return whole > 0 && is_word(name[whole - 1]) ? start : whole;
}

/// Whether a negative exponent ends there: lr1e-3 names a rate, not the step 3.
bool ends_a_small_number(std::string_view name, std::size_t last) {
  const auto start = start_of(name, last);
  return start >= 3 && name.substr(start - 2, 2) == "e-" && is_digit(name[start - 3]);
}

FoundStep last_number(std::string_view name) {
  const auto last = name.find_last_of(digits);
  if (last == name.npos || ends_a_small_number(name, last)) return {};
  const auto start = start_of_last(name, last);
  const auto number = number_at(name.substr(start));
  if (!number || start + number->length <= last) return {};
  const auto end = start + number->length;
  auto behind = name.substr(end);  // without the letters by which valued() tells numbers apart
  if (!number->apart.empty()) behind.remove_prefix(1 + number->apart.size());
  if (!std::ranges::all_of(number->tail, is_word)) behind.remove_prefix(number->tail.size());
  return NamedStep{*number, formatted("{}#{}", name.substr(0, start), behind), start, end};
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
/// 900kfoo and 1mfoo have some, 5best and 6best have none. A number with a letter between its
/// digits cannot be read, nor can numbers whose units stand apart and differ: 900_k and 1_m.
FoundSteps valued(const std::vector<NamedStep>& numbers) {
  FoundSteps found;
  if (numbers.empty()) return found;
  const auto& first = numbers.front().number;
  bool units_differ = false;
  for (const auto& [number, rest, begin, end, epoch] : numbers) {
    units_differ = units_differ || number.unit != first.unit;
    if (!number.within.empty()) {
      found.conflict = formatted("dimred cannot read the step number \"{}\"", number.within);
      return found;
    }
    if (number.tail == first.tail && number.apart == first.apart) continue;
    found.conflict = formatted("the letters after the step numbers differ (\"{}\" and \"{}\")",
                               utf8_text(first.letters()),
                               utf8_text(number.letters()));
    return found;
  }
  const bool scaled = first.tail.empty() || is_measure(first.tail) || units_differ;
  for (const auto& [number, rest, begin, end, epoch] : numbers) {
    const auto& value = scaled ? number.scaled : number.plain;
    if (!value) return {};
    found.steps.push_back(*value);
  }
  return found;
}

bool all_differ(const Values& steps) {
  return std::set(steps.begin(), steps.end()).size() == steps.size();
}

/// Whether all names have one number behind a word, some in groups with a mark, as 1_000.
bool are_grouped(const NameList& names, std::string_view word, char mark) {
  bool grouped = false;
  for (const auto& name : names) {
    const auto found = step_behind(name, word, mark);
    if (!found) return false;
    const auto& number = found->number;
    const bool ungrouped = number.unit == 0 && number.plain.value_or(1000) < 1000;
    if (number.paired || (!number.grouped && !ungrouped)) return false;
    grouped = grouped || number.grouped;
  }
  return grouped;
}

/// The mark between groups of digits: a blank or _ where 1_000 is no pair of numbers.
char mark_of(const NameList& names, std::string_view word) {
  if (are_grouped(names, word, ' ')) return ' ';
  const bool may_pair = word != "step" && word != "iter";
  return !may_pair && are_grouped(names, word, '_') ? '_' : ',';
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

template <class Items, class Text>
bool all_equal(const Items& items, Text text) {
  return std::ranges::all_of(items,
                             [&](const auto& item) { return text(item) == text(items.front()); });
}

constexpr std::array<std::string_view, 5> step_words{"step", "iter", "checkpoint", "ckpt", "epoch"};

/// The numbers behind a word. `above`: the names of the folders in which the names lie.
FoundSteps steps_behind(const NameList& names, const NameList& above, std::string_view word) {
  const char mark = mark_of(names, word);
  const auto numbers =
      numbers_by(names, [&](const auto& name) { return step_behind(name, word, mark); });
  auto found = valued(numbers);
  if (word == "epoch" || found.steps.empty()) return found;
  auto epochs = epochs_of(names, numbers);
  if (epochs.empty() && !above.empty()) epochs = epochs_of(above, numbers);
  if (contradict(found.steps, epochs))
    found.conflict = formatted("the order by {} is not the order by epoch", word);
  return found;
}

/// Whether digits stand behind a word, which need be no integer: step_1.000.
bool has_digits_behind(std::string_view name, std::string_view word) {
  for (auto place = name.find(word); place != name.npos; place = name.find(word, place + 1))
    if (is_digit(at(text_behind(name, word, place), 0))) return true;
  return false;
}

/// Why names whose steps are no integers have no order: step_1.000 may be a thousand.
std::string unread_steps(const NameList& names) {
  if (all_equal(names, std::identity())) return {};
  for (const std::string_view word : {"step", "iter"}) {
    const auto has_digits = [&](const auto& name) { return has_digits_behind(name, word); };
    if (std::ranges::all_of(names, has_digits))
      return formatted("the numbers after \"{}\" are not all whole numbers below 2^63", word);
  }
  return {};
}

FoundSteps steps_in(const NameList& names, const NameList& above) {
  FoundSteps same;  // all of one step
  for (const auto word : step_words) {
    auto found = steps_behind(names, above, word);
    if (found.steps.empty() && found.conflict.empty()) continue;
    const bool equal = !found.steps.empty() && all_equal(found.steps, std::identity());
    if (!equal && (same.steps.empty() || found.conflict.empty())) return found;
    if (same.steps.empty()) same = std::move(found);
  }
  if (!same.steps.empty()) return same;
  auto found = valued(numbers_by(names, [](const auto& name) { return last_number(name); }));
  if (all_differ(found.steps) && (!found.steps.empty() || !found.conflict.empty())) return found;
  return {.steps = {}, .conflict = unread_steps(names)};
}

/// The last numbers in the names of several runs, by folder or by what the names have besides,
/// where each run has the same ones: several checkpoints are of each step. None where the folders
/// are epochs, in which numbers begin again.
Values steps_of_runs(const NameList& names, const std::vector<fs::path>& folders) {
  std::vector<NamedStep> numbers;
  for (const auto& name : names) {
    auto number = last_number(name);
    if (!number) return {};
    numbers.push_back(std::move(*number));
  }
  auto steps = valued(numbers).steps;
  std::map<std::pair<fs::path, std::string>, std::set<std::int64_t>> runs;
  bool epochs = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!runs[{folders[i], numbers[i].rest}].insert(steps[i]).second) return {};
    epochs = epochs && step_behind(lower_case(bare_name(folders[i])), "epoch").has_value();
  }
  if (epochs || runs.size() < 2 || runs.begin()->second.size() < 2) return {};
  const auto is_same = [&](const auto& run) { return run.second == runs.begin()->second; };
  return std::ranges::all_of(runs, is_same) ? std::move(steps) : Values();
}

std::string numbers_in(const std::string& name) {
  std::string numbers;
  for (const char letter : name) numbers += is_digit(letter) ? letter : ' ';
  return std::string(trimmed(numbers));
}

/// The epochs in all names; none where one has none.
Values epochs_in(const NameList& names) {
  Values epochs;
  for (const auto& name : names) {
    auto epoch = step_behind(name, "epoch");
    auto value = epoch ? epoch->number.plain : std::nullopt;
    for (const std::string_view word : {"checkpoint", "ckpt"})
      if (const auto pair = value ? std::nullopt : step_behind(name, word)) value = pair->epoch;
    if (!value) return {};
    epochs.push_back(*value);
  }
  return epochs;
}

fs::path folder_above(fs::path path, int level) {
  for (int i = 0; i < level; ++i) path = path.parent_path();
  return path;
}

/// The last parts of the paths, `level` folders above; empty where a path has no more.
NameList names_at(std::vector<fs::path> paths, int level) {
  NameList names;
  for (auto& path : paths) {
    path = folder_above(std::move(path), level);
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
    std::vector<fs::path> folders;
    for (const auto& path : paths) folders.push_back(folder_above(path, level + 1));
    if (auto steps = steps_of_runs(names, folders); !steps.empty()) return {std::move(steps), {}};
    if (!all_equal(names, numbers_in)) return {};
  }
}

/// Words for stages of a training, and what each is called: pre-trained, PreTraining.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> stage_words{
    {{"pre[-_ ]?train(?:ing|ed)?", "pretraining"},
     {"mid[-_ ]?train(?:ing|ed)?", "midtraining"},
     {"fine[-_ ]?tun(?:e|ed|ing)", "finetuning"},
     {"post[-_ ]?train(?:ing|ed)?", "posttraining"},
     {"sft|dpo|orpo|kto|grpo|ppo|rlhf|rlvr", ""}}};

/// The stage that a name's word of stages means.
std::string stage_called(const std::string& word) {
  for (const auto& [pattern, name] : stage_words)
    if (std::regex_match(word, std::regex(pattern.begin(), pattern.end())))
      return name.empty() ? word : std::string(name);
  return word;
}

/// "stage 1", "phase 2", "pretraining": the numbers behind the first words, and the others, in a
/// path, from the first folder on.
NameList stages_of(const fs::path& path) {
  static const std::regex stage(formatted(
      "(stage|phase)s?[-_=]?0*([0-9]+)|(?:^|[^a-z0-9])({})(?![a-z])",
      joined(stage_words, "|", [](const auto& word) { return std::string(word.first); })));
  const auto text = lower_case(path.string());
  NameList stages;
  for (std::sregex_iterator found(text.begin(), text.end(), stage), end; found != end; ++found) {
    const auto& match = *found;
    stages.push_back(match[3].matched ? stage_called(match[3].str())
                                      : formatted("{} {}", match[1].str(), match[2].str()));
  }
  return stages;
}

/// The first two stages in which paths differ that name some: "stage 1 and stage 2"; else empty.
std::string different_stages(const std::vector<fs::path>& paths) {
  NameList first;
  for (const auto& path : paths) {
    const auto other = stages_of(path);
    const auto [a, b] = std::ranges::mismatch(first, other);
    if (a != first.end() && b != other.end()) return formatted("{} and {}", *a, *b);
    if (other.size() > first.size()) first = other;
  }
  return {};
}

/// The step that the name of a snapshot says: as this program names it, or behind the word.
std::optional<std::int64_t> step_said(const fs::path& file) {
  const auto name = lower_case(bare_name(file));
  const bool ours = snapshot_file_names.matches(file.filename().string());
  const auto found = ours ? last_number(name) : step_behind(name, "step");
  if (!found || !found->number.within.empty()) return {};
  return found->number.scaled ? found->number.scaled : found->number.plain;
}

}  // namespace

Steps steps_of(const std::vector<fs::path>& checkpoints) {
  auto found = steps_of_paths(checkpoints);
  Steps steps{.of = std::move(found.steps), .conflict = std::move(found.conflict)};
  steps.stages = different_stages(checkpoints);
  steps.counted = steps.of.empty() || !steps.stages.empty();
  if (!steps.counted) return steps;
  steps.of.resize(checkpoints.size());
  std::iota(steps.of.begin(), steps.of.end(), 1);
  return steps;
}

std::vector<std::int64_t> epochs_named(const std::vector<fs::path>& checkpoints) {
  for (int level = 0;; ++level) {
    const auto names = names_at(checkpoints, level);
    if (names.empty()) return {};
    if (level > 0 && names.size() > 1 && all_equal(names, std::identity())) continue;
    if (auto epochs = epochs_in(names); !epochs.empty()) return epochs;
  }
}

std::string step_difference(const std::vector<MemberFacts>& series) {
  const MemberFacts* before = nullptr;
  std::string falling;
  for (const auto& member : series) {
    if (!member.step) continue;
    const auto said = step_said(member.path);
    if (said && *said != *member.step)
      return formatted("the name of '{}' says step {}, and the file holds step {}",
                       member.path,
                       *said,
                       *member.step);
    if (falling.empty() && before != nullptr && before->run.id == member.run.id &&
        *before->step > *member.step)
      falling = formatted("'{}', which holds step {}, comes before '{}', which holds step {}",
                          before->path,
                          *before->step,
                          member.path,
                          *member.step);
    before = &member;
  }
  return falling;
}

SeriesName series_name(const fs::path& path) {
  SeriesName found{.name = lower_case(bare_name(path))};
  FoundStep step;
  for (const auto word : step_words)
    if (!step) step = step_behind(found.name, word);
  found.word = step.has_value();
  auto text = step ? found.name.substr(0, step->begin) + '#' : found.name;
  if (!step) {
    step = last_number(found.name);
    if (step) text = step->rest;
  }
  if (step) found.end = step->end;
  for (char letter : text) {
    if (is_digit(letter)) letter = '#';
    const bool again = letter == '#' && found.shape.ends_with('#');
    if (!again && std::string_view("-_= ").find(letter) == std::string_view::npos)
      found.shape += letter;
  }
  return found;
}

}  // namespace dimred::checkpoints
