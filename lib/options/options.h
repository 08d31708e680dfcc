#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options/condition.h"
#include "options/option_values.h"

// One table of options per command. A row says all that anybody has to know of an option, where it
// is defined: it is what parses flags and files, checks, prints --help in its forms, writes
// config.toml, refuses options without effect, and tells what a resume may change and a later use
// takes over. Every option is bound to a field; its default is that field's initial value, and code
// asks for a row by the field's address.
namespace dimred {

struct ConfigEntry;
class OptionTable;

enum class OptionOrigin { default_value, file, flag };

/// The type of an option's TOML value, and of its value in --help.
enum class OptionKind { integer, number, boolean, text, path, choice, numbers };

/// The meaning of a row for callers of any command: a place that another command has made (input),
/// the data set, where this one writes, and so on.
enum class OptionRole {
  none,
  input,
  data,
  output,
  overwrite,
  threads,
  quiet,
  retention,  // how many of the files of a run stay
  stream_cache,
  stream_fetches
};

/// Properties that the rows of a group share.
struct RowDefaults {
  bool persists = false;    // Option::persists
  bool may_change = false;  // Option::may_change, always
  bool essential = false;   // Option::essential
  std::string chosen_by;    // Option::chosen_by
};

/// An option that was removed, or a choice of one.
struct Removed {
  std::string name;
  std::string default_value;  // of an option; empty: it had none
  std::string revision;       // the last that has it
  std::string instead;    // what a message advises: "docs/explanation/scaling.md has the formulas"
  bool persists = false;  // Option::persists, as it was
};

/// Throws std::invalid_argument("source the option is gone, received 2; revision R is the last that
/// has it; instead") unless `value` means the removed option's old default.
void require_old_default(const Removed& option, std::string_view source, const std::string& value);

/// One row. `assign` converts and checks a text (throws std::invalid_argument whose text is the
/// rule alone, e.g. "needs a number in (0, 1)"); `show` prints the field as a TOML value
/// (empty string: unset, left out of config.toml).
struct Option {
  std::string name;    // snake_case: --batch_size, and batch_size = 64 in a file
  std::string group;   // heading in --help and config.toml
  std::string help;    // one line; the table appends range, choices and default; " (default: X)" at
                       // its end says in words what the default is
  std::string limits;  // ">= 1", "in (0, 1)", "robust | dldr"; for --help
  OptionKind kind = OptionKind::text;
  std::vector<std::string> choices;  // of OptionKind::choice
  std::vector<Removed> removed_choices;
  bool optional = false;    // the text "none" unsets it
  bool positional = false;  // bare arguments fill it
  bool essential = false;   // --help lists it; --help all lists every row
  bool persists = false;    // a later use of the run's weights takes it over
  OptionRole role = OptionRole::none;
  bool of_one_rank = false;         // ranks may differ in it
  bool of_this_machine = false;     // a path that no URL may stand for
  bool names_file = false;          // a text that may name a file, and so a URL
  bool waits_for_adoption = false;  // see Row::locate_after_adoption()
  Condition may_change = never();   // when a run that is taken up again may have another value
  std::string way_on;               // for who meant to change it; {} is the run's value
  Condition needs;                  // when it has an effect
  bool idle_in_files = true;        // a file may set it where it has none
  std::function<void(const std::string&, const OptionTable&)> url_rule;  // see Row::url_rule()
  std::string alias;      // another program's name for the same, accepted too; empty: none
  std::string chosen_by;  // a row whose value decides this one's default, as a preset does
  std::vector<std::string> follows;                         // see Row::follows()
  std::function<std::string(const OptionTable&)> followed;  // see Row::follows()
  const void* field = nullptr;
  std::function<void(const std::string&)> assign;
  std::function<std::string()> show;
  std::string default_value;  // show() when the row was added, or as chosen_by decides
  std::string text;           // as last given; empty: never
  std::string given_in;       // the place in a file that did so; empty: no file
  OptionOrigin origin = OptionOrigin::default_value;
  bool adopted = false;  // OptionTable::adopt() has set it

  bool was_set() const { return origin != OptionOrigin::default_value; }  // by file or flag
  /// Whether the caller has, by flag or in a file of their own.
  bool was_given() const { return was_set() && !adopted; }
  /// show() without TOML's quotation marks and brackets: linear, 0.5, "1, 2".
  std::string value() const;
};

/// A row that was just added, for the rest of its definition; of no use after the next row.
class Row {
 public:
  explicit Row(Option& option) : option_(&option) {}

  /// A flag that sets it to something else where this does not hold is refused.
  Row& needs(Condition condition);
  /// A file that does so is refused, too. Others may hold it, as every config.toml does.
  Row& needs_in_files(Condition condition);
  Row& chosen_by(std::string row);
  /// The command derives this row from `rows` if nobody gives it, and config.toml has the result:
  /// `value` returns what these rows give now; none: whatever the file has.
  Row& follows(std::vector<std::string> rows,
               std::function<std::string(const OptionTable&)> value = {});
  Row& may_change();
  Row& may_change_unless(Condition condition);
  Row& way_on(std::string text);
  Row& role(OptionRole role);
  Row& of_one_rank();
  Row& of_this_machine();
  Row& may_name_a_file();
  /// Called with a URL of this row before anything is fetched; throws std::invalid_argument for one
  /// that will not do.
  Row& url_rule(std::function<void(const std::string& url, const OptionTable& table)> rule);
  Row& essential();
  Row& positional();
  /// The row may also be given as `name`, by flag or in a file.
  Row& alias(std::string name);
  /// A choice that the row had until `revision`; it is refused with a line that says so.
  Row& removed_choice(std::string choice, std::string revision, std::string instead);
  /// How a URL of this row is located, other rows of a file that is adopted may say: parse() and
  /// read_entries() leave it until OptionTable::adopt(), or until locate_all() where nothing is
  /// adopted.
  Row& locate_after_adoption();

 private:
  Option* option_;
};

/// The row of a field, still without its name: how its value is read and shown.
Option option_row(std::int64_t* field, const Range& range = {});
Option option_row(double* field, const Range& range = {});
/// "none" unsets an optional number.
Option option_row(std::optional<std::int64_t>* field, const Range& range = {});
Option option_row(std::optional<double>* field, const Range& range = {});
Option option_row(bool* field);
Option option_row(std::string* field);
/// A relative path given is made absolute, so that config.toml means the same file everywhere.
Option option_row(std::filesystem::path* field);
/// Comma-separated on the command line, an array in TOML.
Option option_row(std::vector<double>* field, const Range& range = {});

class OptionTable {
 public:
  OptionTable(std::string command, std::string summary);

  /// Rows added after this call belong to `heading`.
  void group(std::string heading, RowDefaults defaults = {});

  /// A number, a switch, a text, a path or a list of numbers, as option_row() says.
  template <class Field>
  Row add(std::string name, Field* field, std::string help) {
    return add_row(std::move(name), std::move(help), field, option_row(field));
  }
  /// A number, or a list of numbers, within `range`.
  template <class Field>
  Row add(std::string name, Field* field, std::string help, const Range& range) {
    return add_row(std::move(name), std::move(help), field, option_row(field, range));
  }

  /// An enumeration; `names` in the order shown by --help.
  template <class Enum>
  Row add_choice(const std::string& name,
                 Enum* field,
                 const std::string& help,
                 const std::vector<std::pair<std::string, Enum>>& names) {
    std::vector<std::string> texts;
    std::vector<Enum> values;
    for (const auto& [text, value] : names) {
      texts.push_back(text);
      values.push_back(value);
    }
    const auto assign = [field, values](std::size_t i) { *field = values[i]; };
    const auto show = [field, values] {
      std::size_t i = 0;
      while (i + 1 < values.size() && values[i] != *field) ++i;
      return i;
    };
    return add_row(name, help, field, choice_row(texts, assign, show));
  }

  /// The row of a field, to go on with its definition. Throws std::logic_error where it has none.
  Row of(const void* field);

  /// The value of `chooser` decides the defaults of rows that name it as chosen_by: `choose` sets
  /// their fields (and others). Called whenever something was read; what was set stays.
  void choose_defaults(std::string chooser, std::function<void()> choose);

  /// Bare arguments beyond the positional rows', in any place among the flags, go to `take`. The
  /// usage line calls them `name`: "IMAGE...".
  void rest(std::string name, std::function<void(const std::string&)> take);

  /// Gives every row whose text is a URL its local path, as set_locate() says; each URL is located
  /// once in a process.
  void locate_all();

  /// An option that the command had until `revision`, in the present group. By flag or in a file,
  /// its old default is passed over with a line of notices(); require_old_default() refuses any
  /// other value. adopt() refuses one of an option that persisted, and says nothing of a default.
  void removed(std::string name,
               std::string default_value,
               std::string revision,
               std::string instead);
  /// A line for each removed option that was given at its old default, and what notice() has added.
  const std::vector<std::string>& notices() const { return notices_; }
  void notice(std::string line) { notices_.push_back(std::move(line)); }
  const std::vector<Removed>& removed_options() const { return removed_; }

  /// Reads flags (and the file behind --config FILE, which flags override), and locates the URLs
  /// among them. A flag also drops the values of a run's config.toml that followed from the value
  /// it replaces, with a line of notices(). For --help see requested_help(). Throws
  /// std::invalid_argument("--flag: rule, received X") or
  /// ("--flag: unknown option; did you mean --y?") or ("file:line:column: key: rule, received X");
  /// all flag names are checked before the file is read. `--config` accepts TOML, or plain
  /// key=value lines when the name does not end in .toml (the rest of the line is the value;
  /// True/False/None; # comments). `--batch-size 64`, `--batch_size=64` and `--batch_size 64` are
  /// the same; a switch may stand alone or be followed by true or false.
  void parse(const std::vector<std::string>& arguments);

  /// Reads flags as parse() does, and locates nothing.
  void read_flags(const std::vector<std::string>& arguments);

  /// Reads one TOML or key=value file as parse's --config does. Options set by a flag already stay.
  void read_file(const std::filesystem::path& file);

  /// Reads the entries of another reader, such as one of a foreign file.
  void read_entries(const std::vector<ConfigEntry>& entries);

  /// Reads key=value words between blanks; `source` begins the messages. A key is given once. A
  /// relative path is one within `folder`; empty: the current one.
  void read_words(const std::string& words,
                  const std::string& source,
                  const std::filesystem::path& folder = {});

  /// Takes over from the entries of another command's config.toml the rows that persist and nobody
  /// has set yet; the file's other keys are ignored. Returns a line for each option that was set
  /// here to something else than the file says: "pad = 2 overrides 0".
  std::vector<std::string> adopt(const std::vector<ConfigEntry>& entries);

  /// Sets the row of this name as a flag does; `source` begins the message.
  void give(std::string_view name, const std::string& text, std::string_view source);
  /// Sets the row of a field as a file does.
  void set(const void* field, const std::string& text);
  void set(const char* name, const std::string& text) = delete;

  /// The row of a field. Throws std::logic_error where it has none.
  const Option& at(const void* field) const;
  const Option& at(const char* name) const = delete;
  bool was_set(const void* field) const { return at(field).was_set(); }
  bool was_set(const char* name) const = delete;

  std::string to_toml() const;  // every option with its resolved value, by group
  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  const std::string& rest_name() const { return rest_name_; }  // empty: it takes no such arguments
  /// The last word of the command: stage1.
  std::string scope() const;
  const std::vector<Option>& rows() const { return rows_; }
  const Option& config() const { return config_; }
  const Option* row(std::string_view name) const;  // nullptr: there is none
  const Option* row(OptionRole role) const;        // the first one; nullptr: there is none
  /// Whether some rows are essential, so that --help is shorter than --help all.
  bool has_essential() const;

 private:
  struct Flag {
    Option* row;
    std::string text;
  };
  /// A value that a run's config.toml has because of other values in it.
  struct Followed {
    Option* row;
    std::vector<std::pair<const Option*, std::string>> of;  // rows with their values in the file
  };
  struct Choice {
    std::string chooser;
    std::function<void()> choose;
  };

  Row add_row(std::string name, std::string help, const void* field, Option row);
  static Option choice_row(const std::vector<std::string>& texts,
                           std::function<void(std::size_t)> assign,
                           std::function<std::size_t()> show);
  Option* find(std::string_view name);
  /// Refuses a name that `given` has, also under its other name.
  void require_once(const std::string& name,
                    const std::string& source,
                    std::set<std::string>& given);
  std::string hint(std::string_view name, std::string_view prefix) const;
  void locate();
  void apply_choices();
  std::vector<Followed> followed_values();
  void drop_replaced(const std::vector<Followed>& followed);
  const Removed* find_removed(std::string_view name) const;
  void pass_over(const Removed& option, std::string_view source, const std::string& value);
  bool skip_removed(const std::vector<std::string>& arguments, std::size_t& i);
  std::vector<Flag> scan(const std::vector<std::string>& arguments);
  Option* free_positional(const std::vector<Flag>& flags);
  /// Whether argument `i` means the switch before it, in a form that needs a "=": --flip yes.
  bool is_word_of_switch(const std::vector<std::string>& arguments,
                         std::size_t i,
                         const std::vector<Flag>& earlier);
  Flag bare_argument(const std::string& text, const std::vector<Flag>& earlier);
  Flag named_argument(const std::vector<std::string>& arguments, std::size_t& i);
  void apply(Option& row, const std::string& text, std::string_view source, OptionOrigin origin);
  void apply(const ConfigEntry& entry);

  std::string command_;
  std::string summary_;
  std::string group_ = "Options";
  RowDefaults defaults_;
  std::vector<Choice> choices_;
  std::vector<Removed> removed_;
  std::vector<std::string> notices_;
  std::vector<Option> rows_;
  std::string rest_name_;
  std::function<void(const std::string&)> rest_;
  Option config_;  // --config itself: a flag, but no key of a file
};

/// The local path that stands for a row's URL. nullopt: the text stays as it is. Throws
/// std::invalid_argument for a place that cannot be.
using Locate = std::function<std::optional<std::filesystem::path>(const Option& row,
                                                                  const OptionTable& table)>;

/// Options that name a file may name it by a URL. A table knows no stores: a caller that does says,
/// for the tables of this process, which local path stands for one; without it a URL is refused.
void set_locate(Locate locate);

/// Throws std::invalid_argument("[scope] name needs ..., received ...") for the first number of the
/// table that lies outside its row's range: for options that did not come through parse().
void require_ranges(const OptionTable& table, std::string_view scope);

}  // namespace dimred
