#include "options/options.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "options/options_file.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/printable.h"
#include "support/suggestion.h"
#include "support/text.h"
#include "support/url.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

/// The type of a row's value, in the words of messages and in a TOML file.
struct KindWords {
  std::string_view noun;
  ConfigType type;
};

constexpr std::array kind_words = {  // in the order of OptionKind
    KindWords{"a whole number", ConfigType::integer},
    KindWords{"a number", ConfigType::number},
    KindWords{"true or false", ConfigType::boolean},
    KindWords{"a quoted text", ConfigType::text},
    KindWords{"a quoted text", ConfigType::text},
    KindWords{"a quoted text", ConfigType::text},
    KindWords{"an array of numbers", ConfigType::numbers}};

const KindWords& words_of(const Option& row) {
  return kind_words[static_cast<std::size_t>(row.kind)];
}

std::string_view type_name(ConfigType type) {
  if (type == ConfigType::integer) return "the whole number ";
  if (type == ConfigType::number) return "the number ";
  if (type == ConfigType::text) return "the text ";
  return type == ConfigType::numbers ? "the array " : "";
}

bool fits(const Option& row, const ConfigEntry& entry) {
  const auto wanted = words_of(row).type;
  if (entry.type == ConfigType::any) return true;
  if (row.optional && entry.type == ConfigType::text) return entry.text == "none";
  const bool whole = wanted == ConfigType::number && entry.type == ConfigType::integer;
  return entry.type == wanted || whole;
}

template <class Value, class Parse, class Print>
Option row_of_kind(Value* field, OptionKind kind, const Range& range, Parse parse, Print print) {
  Option row{.limits = range_text(range), .kind = kind};
  row.assign = [field, parse](const std::string& text) { *field = parse(text); };
  row.show = [field, print] { return print(*field); };
  return row;
}

/// "none" unsets the field.
template <class Value, class Parse, class Print>
Option row_of_kind(
    std::optional<Value>* field, OptionKind kind, const Range& range, Parse parse, Print print) {
  Option row{.limits = range_text(range), .kind = kind, .optional = true};
  row.assign = [field, parse](const std::string& text) {
    *field = text == "none" || text == "None" ? std::nullopt : std::optional<Value>(parse(text));
  };
  // An option that is set by default and was unset has to say so in config.toml.
  const std::string unset = field->has_value() ? "\"none\"" : "";
  row.show = [field, unset, print] { return field->has_value() ? print(**field) : unset; };
  return row;
}

template <class Field>
Option integer_row(Field* field, const Range& range) {
  const auto parse = [range](const std::string& text) { return parse_integer(text, range); };
  const auto print = [](std::int64_t value) { return std::to_string(value); };
  return row_of_kind(field, OptionKind::integer, range, parse, print);
}

template <class Field>
Option number_row(Field* field, const Range& range) {
  const auto parse = [range](const std::string& text) { return parse_number(text, range); };
  return row_of_kind(field, OptionKind::number, range, parse, toml_number);
}

/// A text with a blank before its scheme is no URL, and messages would show its password.
std::string parse_location(const std::string& text) {
  require(looks_like_url(text) || text.find("://") == std::string::npos,
          "a URL needs to begin with its scheme, such as s3://");
  return parse_text(text);
}

/// A path as a run may record it: a later command may stand in another folder. A URL stands as it
/// is until locate().
fs::path parse_path(const std::string& text) {
  fs::path path = parse_location(text);
  if (looks_like_url(text) || path.empty()) return path;
  auto absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

std::string print_numbers(const std::vector<double>& values) {
  return formatted("[{}]", joined(values, ", ", toml_number));
}

bool is_truth(const std::string& text) {
  return text == "true" || text == "false" || text == "True" || text == "False";
}

Locate& locate_now() {
  static Locate function;
  return function;
}

/// A row's name and its URL -> the local path.
std::map<std::string, fs::path>& located() {
  static std::map<std::string, fs::path> paths;
  return paths;
}

bool looks_named(const std::string& text) { return text.size() > 1 && text.front() == '-'; }

/// An argument that begins with dashes, up to its value.
struct FlagName {
  std::string shown;  // as given
  std::string name;   // without dashes, with _ for -
  bool two_dashes = false;
  std::optional<std::string> value = {};  // behind =
};

FlagName flag_name(const std::string& argument) {
  const auto equals = argument.find('=');
  FlagName flag{.shown = argument.substr(0, equals)};
  flag.two_dashes = flag.shown.starts_with("--");
  flag.name = flag.shown.substr(flag.two_dashes ? 2 : 1);
  std::ranges::replace(flag.name, '-', '_');
  if (equals != std::string::npos) flag.value = argument.substr(equals + 1);
  return flag;
}

/// Whether two texts mean one value: 0.5 and 0.50, True and true.
bool means_same(const std::string& a, const std::string& b) {
  const auto number = number_in<double>(a);
  return lower_case(a) == lower_case(b) || (number && number == number_in<double>(b));
}

/// A TOML value without its quotation marks or brackets.
std::string without_quotes(const std::string& text) {
  const bool wrapped = !text.empty() && (text.front() == '"' || text.front() == '[');
  return wrapped ? text.substr(1, text.size() - 2) : text;
}

constexpr std::string_view header_of_record = "# Every option of this run;";

/// Whether to_toml() wrote the file, so that it holds derived values, too.
bool is_record(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line) && line.starts_with('#'))
    if (line.starts_with(header_of_record)) return true;
  return false;
}

[[noreturn]] void refuse_removed(const Removed& gone,
                                 std::string_view what,
                                 std::string_view source,
                                 std::string_view what_and_value) {
  refuse("{} dimred no longer has {}; the last revision with this {} is {}; {}",
         source,
         what_and_value,
         what,
         gone.revision,
         gone.instead);
}

}  // namespace

void require_old_default(const Removed& option, std::string_view source, const std::string& value) {
  if (means_same(value, option.default_value)) return;
  const auto received = value.empty() ? "no value" : printable(value);
  refuse_removed(option, "option", source, formatted("this option, received {}", received));
}

Option option_row(std::int64_t* field, const Range& range) { return integer_row(field, range); }

Option option_row(std::optional<std::int64_t>* field, const Range& range) {
  return integer_row(field, range);
}

Option option_row(double* field, const Range& range) { return number_row(field, range); }

Option option_row(std::optional<double>* field, const Range& range) {
  return number_row(field, range);
}

Option option_row(bool* field) {
  const auto print = [](bool value) { return value ? "true" : "false"; };
  return row_of_kind(field, OptionKind::boolean, {}, parse_boolean, print);
}

Option option_row(std::string* field) {
  return row_of_kind(field, OptionKind::text, {}, parse_location, toml_string);
}

Option option_row(fs::path* field) {
  const auto print = [](const auto& path) { return toml_string(location_text(path)); };
  return row_of_kind(field, OptionKind::path, {}, parse_path, print);
}

Option option_row(std::vector<double>* field, const Range& range) {
  const auto parse = [range](const std::string& text) { return parse_numbers(text, range); };
  return row_of_kind(field, OptionKind::numbers, range, parse, print_numbers);
}

OptionTable::OptionTable(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {
  config_.name = "config";
  config_.kind = OptionKind::path;
  config_.help = "file with options (TOML or key=value lines); flags override the file";
}

std::string Option::value() const { return without_quotes(show()); }

Row& Row::needs(Condition condition) {
  option_->needs = std::move(condition);
  return *this;
}

Row& Row::needs_in_files(Condition condition) {
  option_->idle_in_files = false;
  return needs(std::move(condition));
}

Row& Row::chosen_by(std::string row) {
  option_->chosen_by = std::move(row);
  return *this;
}

Row& Row::follows(std::vector<std::string> rows,
                  std::function<std::string(const OptionTable&)> value) {
  option_->follows = std::move(rows);
  option_->followed = std::move(value);
  return *this;
}

Row& Row::may_change() {
  option_->may_change = {};
  return *this;
}

Row& Row::may_change_unless(Condition condition) {
  option_->may_change = !std::move(condition);
  return *this;
}

Row& Row::way_on(std::string text) {
  option_->way_on = std::move(text);
  return *this;
}

Row& Row::role(OptionRole role) {
  option_->role = role;
  // How a rank uses its machine is its own.
  if (role == OptionRole::threads || role == OptionRole::quiet) option_->of_one_rank = true;
  return *this;
}

Row& Row::of_one_rank() {
  option_->of_one_rank = true;
  return *this;
}

Row& Row::of_this_machine() {
  option_->of_this_machine = true;
  return *this;
}

Row& Row::may_name_a_file() {
  option_->names_file = true;
  return *this;
}

Row& Row::url_rule(std::function<void(const std::string&, const OptionTable&)> rule) {
  option_->url_rule = std::move(rule);
  return *this;
}

Row& Row::essential() {
  option_->essential = true;
  return *this;
}

Row& Row::positional() {
  option_->positional = true;
  return *this;
}

Row& Row::alias(std::string name) {
  option_->help += formatted("; other name: {}", name);
  option_->alias = std::move(name);
  return *this;
}

Row& Row::removed_choice(std::string choice, std::string revision, std::string instead) {
  option_->removed_choices.push_back({.name = std::move(choice),
                                      .default_value = {},
                                      .revision = std::move(revision),
                                      .instead = std::move(instead)});
  return *this;
}

Row& Row::locate_after_adoption() {
  option_->waits_for_adoption = true;
  return *this;
}

void OptionTable::group(std::string heading, RowDefaults defaults) {
  group_ = std::move(heading);
  defaults_ = std::move(defaults);
}

Row OptionTable::add_row(std::string name, std::string help, const void* field, Option row) {
  check(name != "config" && name != "help" && find(name) == nullptr,
        "two options are called " + name);
  row.name = std::move(name);
  row.help = std::move(help);
  row.group = group_;
  row.persists = defaults_.persists;
  row.essential = defaults_.essential;
  row.chosen_by = defaults_.chosen_by;
  if (defaults_.may_change) row.may_change = {};
  row.field = field;
  row.default_value = row.show();
  return Row(rows_.emplace_back(std::move(row)));
}

Option OptionTable::choice_row(const std::vector<std::string>& texts,
                               std::function<void(std::size_t)> assign,
                               std::function<std::size_t()> show) {
  Option row{.limits = joined(texts, " | "), .kind = OptionKind::choice, .choices = texts};
  row.show = [show = std::move(show), texts] { return toml_string(texts[show()]); };
  row.assign = [assign = std::move(assign), texts, limits = row.limits](const std::string& text) {
    const auto found = std::ranges::find(texts, text);
    if (found == texts.end()) {
      const auto near = nearest(text, texts);
      refuse("needs one of {}{}", limits, near ? formatted(" (nearest: {})", *near) : "");
    }
    assign(found - texts.begin());
  };
  return row;
}

const Option& OptionTable::at(const void* field) const {
  const auto found = std::ranges::find(rows_, field, &Option::field);
  check(found != rows_.end(), formatted("{} has no option of such a field", command_));
  return *found;
}

Row OptionTable::of(const void* field) { return Row(rows_[&at(field) - rows_.data()]); }

void OptionTable::choose_defaults(std::string chooser, std::function<void()> choose) {
  choices_.push_back({std::move(chooser), std::move(choose)});
  apply_choices();
}

void OptionTable::apply_choices() {
  for (const auto& [chooser, choose] : choices_) {
    choose();
    for (auto& row : rows_) {
      if (row.chosen_by != chooser) continue;
      row.default_value = row.show();
      if (row.was_set()) row.assign(row.text);
    }
  }
}

void OptionTable::rest(std::string name, std::function<void(const std::string&)> take) {
  rest_name_ = std::move(name);
  rest_ = std::move(take);
}

// Where a row names a URL.

void set_locate(Locate locate) { locate_now() = std::move(locate); }

void OptionTable::locate_all() {
  for (auto& row : rows_) row.waits_for_adoption = false;
  locate();
}

void OptionTable::locate() {
  for (auto& row : rows_) {
    const bool names = row.kind == OptionKind::path || row.kind == OptionKind::text;
    if (!names || row.waits_for_adoption || !looks_like_url(row.text)) continue;
    // Set to something else since then.
    if (row.kind == OptionKind::path && row.show() != toml_string(without_credentials(row.text)))
      continue;
    const auto key = row.name + ' ' + row.text;
    if (!located().contains(key)) {
      if (!locate_now()) {
        if (row.kind == OptionKind::text) continue;
        refuse("--{}: needs a local path, not a URL, received {}",
               row.name,
               without_credentials(row.text));
      }
      const auto path = locate_now()(row, *this);
      if (!path) continue;
      located()[key] = *path;
      stand_for(*path, without_credentials(row.text));
    }
    row.assign(located()[key].string());
  }
}

const Option* OptionTable::row(std::string_view name) const {
  const auto found = std::ranges::find(rows_, name, &Option::name);
  return found == rows_.end() ? nullptr : &*found;
}

const Option* OptionTable::row(OptionRole role) const {
  const auto found = std::ranges::find(rows_, role, &Option::role);
  return found == rows_.end() ? nullptr : &*found;
}

Option* OptionTable::find(std::string_view name) {
  if (name == config_.name) return &config_;
  for (auto& row : rows_) {
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return &row;
  }
  return nullptr;
}

bool OptionTable::has_essential() const { return std::ranges::any_of(rows_, &Option::essential); }

std::string OptionTable::scope() const { return command_.substr(command_.rfind(' ') + 1); }

std::string OptionTable::hint(std::string_view name, std::string_view prefix) const {
  auto names = texts_of(rows_, &Option::name);
  if (!prefix.empty()) names.insert(names.end(), {"config", "help"});
  return suggestion(
      name, names, formatted("; see {} --help{}", command_, has_essential() ? " all" : ""), prefix);
}

void OptionTable::apply(Option& row,
                        const std::string& text,
                        std::string_view source,
                        OptionOrigin origin) {
  const auto gone = std::ranges::find(row.removed_choices, text, &Removed::name);
  if (gone != row.removed_choices.end())
    refuse_removed(*gone, "choice", source, formatted("the choice {}", printable(text)));
  try {
    // An empty flag is as a rule a script's unset variable; in config.toml "" means unset.
    require(row.kind != OptionKind::path || !text.empty() || origin != OptionOrigin::flag,
            "needs a path");
    row.assign(text);
  } catch (const std::invalid_argument& broken) {
    refuse("{} {}, received {}", source, broken.what(), printable(text));
  }
  row.text = text;
  row.given_in.clear();
  row.adopted = false;
  row.origin = origin;
}

// What a configuration file says.

void OptionTable::apply(const ConfigEntry& entry) {
  auto* row = find(entry.name);
  if (const auto* gone = row == nullptr ? find_removed(entry.name) : nullptr)
    return pass_over(*gone, formatted("{}: {}:", entry.source, entry.name), entry.text);
  if (row == nullptr || row == &config_)
    refuse("{}: {}: unknown key{}", entry.source, printable(entry.name), hint(entry.name, ""));
  if (row->origin == OptionOrigin::flag) return;
  const auto source = formatted("{}: {}", entry.source, entry.name);
  require(fits(*row, entry),
          "{}: needs {}{}{}, received {}{}",
          source,
          words_of(*row).noun,
          row->limits.empty() ? "" : " ",
          row->limits,
          type_name(entry.type),
          printable(entry.text));
  const bool is_text = row->kind == OptionKind::text || row->kind == OptionKind::path;
  const bool none = entry.type == ConfigType::any && entry.text == "None" && is_text;
  apply(*row, none ? "" : entry.text, source + ":", OptionOrigin::file);
  row->given_in = entry.source;
}

void OptionTable::require_once(const std::string& name,
                               const std::string& source,
                               std::set<std::string>& given) {
  const auto* found = find(name);
  const auto& own = found != nullptr ? found->name : name;
  require(given.insert(own).second,
          "{}: {}: given twice{}",
          source,
          printable(name),
          own == name ? "" : formatted(" (another name of {})", own));
}

void OptionTable::read_file(const fs::path& file) {
  std::set<std::string> given;
  for (auto entry : read_config_file(file)) {
    std::ranges::replace(entry.name, '-', '_');
    require_once(entry.name, entry.source, given);
    apply(entry);
  }
  apply_choices();
}

void OptionTable::give(std::string_view name, const std::string& text, std::string_view source) {
  auto* row = find(name);
  if (row == nullptr || row == &config_)
    refuse("{}: {}: unknown option{}", source, printable(name), hint(name, ""));
  apply(*row, text, formatted("{} {}", source, name), OptionOrigin::flag);
  apply_choices();
}

void OptionTable::set(const void* field, const std::string& text) {
  auto& row = rows_[&at(field) - rows_.data()];
  apply(row, text, row.name + ":", OptionOrigin::file);
  apply_choices();
}

std::vector<std::string> OptionTable::adopt(const std::vector<ConfigEntry>& entries) {
  std::vector<std::string> overridden;
  for (const auto& entry : entries) {
    auto* row = find(entry.name);
    const auto* gone = find_removed(entry.name);
    if (gone != nullptr && gone->persists)
      require_old_default(*gone, formatted("{}: {}:", entry.source, entry.name), entry.text);
    if (row == nullptr || !row->persists) continue;
    if (!row->was_set()) {
      apply(entry);
      row->adopted = true;
      continue;
    }
    const auto own = *row;
    const auto here = row->show();
    apply(*row, entry.text, formatted("{}: {}:", entry.source, entry.name), OptionOrigin::file);
    const auto there = row->show();
    apply(*row, own.text, own.name + ":", own.origin);
    row->given_in = own.given_in;
    if (here != there)
      overridden.push_back(formatted("{} = {} overrides {}", row->name, here, there));
  }
  apply_choices();
  locate_all();
  return overridden;
}

// Options that are gone.

void OptionTable::removed(std::string name,
                          std::string default_value,
                          std::string revision,
                          std::string instead) {
  check(find(name) == nullptr, "an option that is gone is a row: " + name);
  removed_.push_back({std::move(name),
                      std::move(default_value),
                      std::move(revision),
                      std::move(instead),
                      defaults_.persists});
}

const Removed* OptionTable::find_removed(std::string_view name) const {
  const auto found = std::ranges::find(removed_, name, &Removed::name);
  return found == removed_.end() ? nullptr : &*found;
}

void OptionTable::pass_over(const Removed& option,
                            std::string_view source,
                            const std::string& value) {
  require_old_default(option, source, value);
  notices_.push_back(
      formatted("{} dimred no longer has this option; the old default has no effect", source));
}

/// Passes over a removed option at arguments[i] and its value, on which i stands then.
bool OptionTable::skip_removed(const std::vector<std::string>& arguments, std::size_t& i) {
  if (!looks_named(arguments[i])) return false;
  const auto flag = flag_name(arguments[i]);
  const auto* gone = flag.two_dashes ? find_removed(flag.name) : nullptr;
  if (gone == nullptr) return false;
  const bool has_next = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
  const bool is_switch = is_truth(gone->default_value);
  auto value = flag.value.value_or(is_switch ? "true" : "");
  if (!flag.value && has_next && (!is_switch || is_truth(arguments[i + 1]))) value = arguments[++i];
  pass_over(*gone, formatted("--{}:", gone->name), value);
  return true;
}

// The command line. (CLI11 2.1 was tried: "--name= 5" takes 5 as the value of an empty one, a
// switch that may take a value swallows the bare argument after it, and messages do not carry the
// rule; with those repaired in front of it nothing was left for it to do.)

OptionTable::Flag OptionTable::named_argument(const std::vector<std::string>& arguments,
                                              std::size_t& i) {
  const auto [shown, name, two_dashes, value] = flag_name(arguments[i]);
  auto* row = two_dashes ? find(name) : nullptr;
  if (row == nullptr) refuse("{}: unknown option{}", printable(shown), hint(name, "--"));
  if (value) return {row, *value};
  const bool has_next = i + 1 < arguments.size();
  if (row->kind == OptionKind::boolean) {
    return {row, has_next && is_truth(arguments[i + 1]) ? arguments[++i] : "true"};
  }
  // A single dash may begin a negative number or name standard input; two begin an option.
  require(has_next && !arguments[i + 1].starts_with("--"), "--{}: needs a value", name);
  return {row, arguments[++i]};
}

Option* OptionTable::free_positional(const std::vector<Flag>& flags) {
  const auto found = std::ranges::find_if(rows_, [&](const Option& row) {
    return row.positional && std::ranges::find(flags, &row, &Flag::row) == flags.end();
  });
  return found == rows_.end() ? nullptr : &*found;
}

bool OptionTable::is_word_of_switch(const std::vector<std::string>& arguments,
                                    std::size_t i,
                                    const std::vector<Flag>& earlier) {
  if (i == 0 || earlier.empty() || !looks_named(arguments[i - 1])) return false;
  const bool alone = earlier.back().row->kind == OptionKind::boolean &&
                     arguments[i - 1].find('=') == std::string::npos;
  // A number may be an argument of its own, such as the folder of an export.
  const bool is_number = arguments[i] == "0" || arguments[i] == "1";
  return alone && is_truth_word(arguments[i]) &&
         !(is_number && free_positional(earlier) != nullptr);
}

OptionTable::Flag OptionTable::bare_argument(const std::string& text,
                                             const std::vector<Flag>& earlier) {
  if (auto* row = free_positional(earlier)) return {row, text};
  refuse("{}: unexpected argument{}", printable(text), hint(text, "--"));
}

std::vector<OptionTable::Flag> OptionTable::scan(const std::vector<std::string>& arguments) {
  std::vector<Flag> flags;
  std::vector<std::string> bare;  // where the table takes any number of them
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (rest_ && !looks_named(arguments[i])) {
      bare.push_back(arguments[i]);
      continue;
    }
    if (skip_removed(arguments, i)) continue;
    const bool named = looks_named(arguments[i]);
    if (!named && is_word_of_switch(arguments, i, flags))
      refuse("--{}: needs true or false, received {}", flags.back().row->name, arguments[i]);
    auto flag = named ? named_argument(arguments, i) : bare_argument(arguments[i], flags);
    const auto earlier = std::ranges::find(flags, flag.row, &Flag::row);
    if (earlier != flags.end())
      refuse("--{}: given twice, received {} and {}",
             flag.row->name,
             printable(earlier->text),
             printable(flag.text));
    flags.push_back(std::move(flag));
  }
  for (const auto& text : bare) {
    if (auto* row = free_positional(flags)) {
      flags.push_back({row, text});
    } else {
      rest_(text);
    }
  }
  return flags;
}

std::vector<OptionTable::Followed> OptionTable::followed_values() {
  std::vector<Followed> found;
  for (auto& row : rows_) {
    if (row.given_in.empty()) continue;
    const bool by_preset = !row.chosen_by.empty();
    if (by_preset ? row.show() != row.default_value
                  : row.follows.empty() ||
                        (row.followed && !means_same(row.followed(*this), row.value())))
      continue;
    Followed value{.row = &row};
    for (const auto& name : by_preset ? std::vector{row.chosen_by} : row.follows) {
      const auto* other = find(name);
      if (other != nullptr && !other->given_in.empty()) value.of.emplace_back(other, other->show());
    }
    found.push_back(std::move(value));
  }
  return found;
}

void OptionTable::drop_replaced(const std::vector<Followed>& followed) {
  std::map<std::string, std::vector<std::string>> dropped;
  for (const auto& [row, of] : followed) {
    if (row->given_in.empty()) continue;
    const auto replaced = std::ranges::find_if(of, [](const auto& other) {
      return other.first->origin == OptionOrigin::flag && other.first->show() != other.second;
    });
    if (replaced == of.end()) continue;
    const auto& initial = row->default_value;
    row->assign(row->optional && initial.empty() ? "none" : without_quotes(initial));
    row->text.clear();
    row->given_in.clear();
    row->origin = OptionOrigin::default_value;
    dropped[formatted("--{} replaces {} = {}",
                      replaced->first->name,
                      replaced->first->name,
                      replaced->second)]
        .push_back(row->name);
  }
  for (const auto& [why, names] : dropped)
    notice(formatted("{} of {}, so these values of the file have no effect: {}",
                     why,
                     config_.text,
                     joined(names, ", ")));
  apply_choices();
}

void OptionTable::read_flags(const std::vector<std::string>& arguments) {
  const auto flags = scan(arguments);
  std::vector<Followed> followed;
  for (const auto& flag : flags) {
    if (flag.row != &config_) continue;
    config_.text = flag.text;
    read_file(flag.text);
    if (is_record(flag.text)) followed = followed_values();
  }
  for (const auto& flag : flags) {
    if (flag.row != &config_) {
      apply(*flag.row, flag.text, formatted("--{}:", flag.row->name), OptionOrigin::flag);
    }
  }
  apply_choices();
  drop_replaced(followed);
}

void OptionTable::parse(const std::vector<std::string>& arguments) {
  read_flags(arguments);
  locate();
}

void OptionTable::read_entries(const std::vector<ConfigEntry>& entries) {
  for (const auto& entry : entries) apply(entry);
  apply_choices();
  locate();
}

void OptionTable::read_words(const std::string& words,
                             const std::string& source,
                             const fs::path& folder) {
  std::set<std::string> given;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const auto equals = word.find('=');
    require(equals != word.npos,
            "{}: needs words of the form key=value, received {}",
            source,
            printable(word));
    const auto name = word.substr(0, equals);
    require_once(name, source, given);
    const auto* found = find(name);
    auto text = word.substr(equals + 1);
    const bool is_path = found != nullptr && found->kind == OptionKind::path;
    if (is_path && !text.empty() && !looks_like_url(text)) text = (folder / text).string();
    apply(ConfigEntry{.name = name, .text = std::move(text), .source = source});
  }
  apply_choices();
}

// What a table says of itself.

std::string OptionTable::to_toml() const {
  std::string out = formatted("{} {} --config FILE repeats it.\n", header_of_record, command_);
  const std::string* group = nullptr;
  for (const auto& row : rows_) {
    const auto value = row.show();
    if (value.empty()) continue;
    if (group == nullptr || *group != row.group) out += formatted("\n# {}\n", row.group);
    group = &row.group;
    out += formatted("{} = {}\n", row.name, value);
  }
  return out;
}

void require_ranges(const OptionTable& table, std::string_view scope) {
  for (const auto& row : table.rows()) {
    auto value = row.show();
    const bool number = row.kind == OptionKind::integer || row.kind == OptionKind::number;
    if (value.ends_with(".0")) value.resize(value.size() - 2);
    if (!number || value.empty()) continue;  // an optional number that is not set
    try {
      row.assign(value);
    } catch (const std::invalid_argument& rule) {
      refuse("[{}] {} {}, received {}", scope, row.name, rule.what(), value);
    }
  }
}

}  // namespace dimred
