#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/option_values.h"
#include "support/text.h"

// One table of options per command: it parses flags and files, checks, prints --help and writes the
// resolved config.toml. Every option is bound to a field; its default is that field's initial
// value.
namespace dimred {

struct ConfigEntry;

enum class OptionOrigin { default_value, file, flag };

/// The type of an option's TOML value, and of its value in --help.
enum class OptionKind { integer, number, boolean, text, path, choice, numbers };

/// One row. `assign` converts and checks a text (throws std::invalid_argument whose text is the
/// rule alone, e.g. "needs a number in (0, 1)"); `show` prints the field as a TOML value
/// (empty string: unset, left out of config.toml).
struct Option {
  std::string name;    // snake_case: --batch_size, and batch_size = 64 in a file
  std::string group;   // heading in --help and config.toml
  std::string help;    // one line; the default, range and choices are appended by the table
  std::string limits;  // ">= 1", "in (0, 1)", "robust | dldr"; for --help
  OptionKind kind = OptionKind::text;
  bool optional = false;            // the text "none" unsets it
  bool positional = false;          // bare arguments fill it
  bool waits_for_adoption = false;  // see OptionTable::locate_after_adoption()
  bool essential = false;           // see OptionTable::essential()
  std::string alias;  // another program's name for the same, accepted too; empty: none
  std::function<void(const std::string&)> assign;
  std::function<std::string()> show;
  std::string default_value;  // show() when the row was added
  std::string text;           // as last given; empty: never
  OptionOrigin origin = OptionOrigin::default_value;
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
  void group(std::string heading);

  /// A number, a switch, a text, a path or a list of numbers, as option_row() says.
  template <class Field>
  void add(std::string name, Field* field, std::string help) {
    add_row(std::move(name), std::move(help), option_row(field));
  }
  /// A number, or a list of numbers, within `range`.
  template <class Field>
  void add(std::string name, Field* field, std::string help, const Range& range) {
    add_row(std::move(name), std::move(help), option_row(field, range));
  }

  /// An enumeration; `names` in the order shown by --help.
  template <class Enum>
  void add_choice(const std::string& name,
                  Enum* field,
                  const std::string& help,
                  const std::vector<std::pair<std::string, Enum>>& names) {
    std::vector<std::string> texts;
    std::vector<Enum> values;
    for (const auto& [text, value] : names) {
      texts.push_back(text);
      values.push_back(value);
    }
    add_index(
        name,
        help,
        texts,
        [field, values](std::size_t i) { *field = values[i]; },
        [field, values] {
          std::size_t i = 0;
          while (i + 1 < values.size() && values[i] != *field) ++i;
          return i;
        });
  }

  /// Bare arguments fill this row: `dimred inspect FILE`. The flag --name works as well.
  void positional(std::string_view name);

  /// Bare arguments beyond the positional rows', in any place among the flags, go to `take`.
  void rest(std::function<void(const std::string&)> take);
  /// The row may also be given as `alias`, by flag or in a file.
  void alias(std::string_view name, std::string alias);

  /// --help lists these rows alone, --help all every row. Without a call, --help lists every row.
  void essential(const std::vector<std::string_view>& names);

  /// How a URL of this row is located, other rows of a file that is adopted may say: parse() and
  /// read_entries() leave it until adopt(), or until locate_all() where nothing is adopted.
  void locate_after_adoption(std::string_view name);
  void locate_all();

  /// Reads flags (and the file behind --config FILE, which flags override). Returns the help text
  /// if --help, --help all or --help names was asked for, else nullopt. Throws
  /// std::invalid_argument("--flag: rule, received X") or
  /// ("--flag: unknown option; did you mean --y?") or ("file:line:column: key: rule, received X");
  /// all flag names are checked before the file is read. `--config` accepts TOML, or plain
  /// key=value lines when the name does not end in .toml (the rest of the line is the value;
  /// True/False/None; # comments). `--batch-size 64`, `--batch_size=64` and `--batch_size 64` are
  /// the same; a switch may stand alone or be followed by true or false.
  std::optional<std::string> parse(const std::vector<std::string>& arguments);

  /// Reads one TOML or key=value file as parse's --config does. Options set by a flag already stay.
  void read_file(const std::filesystem::path& file);

  /// The same with what another reader found, such as one of a foreign file.
  void read_entries(const std::vector<ConfigEntry>& entries);

  /// Reads key=value words between blanks; `source` begins the messages. A key is given once.
  void read_words(const std::string& words, const std::string& source);

  /// Takes over from the entries of another command's config.toml what this table has in the named
  /// groups and nobody has set yet; the file's other keys are ignored. Returns a line for each
  /// option that was set here to something else than the file says: "pad = 2 overrides 0".
  std::vector<std::string> adopt(const std::vector<ConfigEntry>& entries,
                                 const std::vector<std::string>& groups);

  bool was_set(std::string_view name) const;  // by file or flag
  OptionOrigin origin(std::string_view name) const;
  enum class Help { essential, all, names };
  /// 100 columns; names: for a shell's completion, a line "--name value value" for each option, the
  /// values being those of a choice, or PATH.
  std::string help(Help what = Help::all) const;
  std::string to_toml() const;  // every option with its resolved value, by group
  std::map<std::string, std::string> defaults() const;  // name -> TOML value; empty: unset
  const std::string& command() const { return command_; }
  const std::vector<Option>& rows() const { return rows_; }
  const Option* row(std::string_view name) const;  // nullptr: there is none

 private:
  struct Flag {
    Option* row;
    std::string text;
  };

  void add_row(std::string name, std::string help, Option row);
  void add_index(const std::string& name,
                 const std::string& help,
                 const std::vector<std::string>& texts,
                 std::function<void(std::size_t)> assign,
                 std::function<std::size_t()> show);
  Option* find(std::string_view name);
  Option& known(std::string_view name);
  bool has_essential() const;
  std::string completions() const;
  std::string hint(std::string_view name, std::string_view prefix) const;
  std::vector<Flag> scan(const std::vector<std::string>& arguments);
  Option* free_positional(const std::vector<Flag>& flags);
  Flag bare_argument(const std::string& text, const std::vector<Flag>& earlier);
  Flag named_argument(const std::vector<std::string>& arguments, std::size_t& i);
  void apply(Option& row, const std::string& text, std::string_view source, OptionOrigin origin);
  void apply(const ConfigEntry& entry);

  std::string command_;
  std::string summary_;
  std::string group_ = "Options";
  std::vector<Option> rows_;
  std::function<void(const std::string&)> rest_;
  Option config_;  // --config itself: a flag, but no key of a file
};

/// Throws std::invalid_argument("[scope] name needs ..., received ...") for the first number of the
/// table that lies outside its row's range: for options that did not come through parse().
void require_ranges(const OptionTable& table, std::string_view scope);

}  // namespace dimred
