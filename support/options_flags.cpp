#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "support/errors.h"
#include "support/locations.h"
#include "support/options.h"
#include "support/options_file.h"

// The command line of an option table. (CLI11 2.1 was tried: "--name= 5" takes 5 as the value of an
// empty one, a switch that may take a value swallows the bare argument after it, and messages do
// not carry the rule; with those repaired in front of it nothing was left for it to do.)
namespace dimred {
namespace {

bool is_truth(const std::string& text) {
  return text == "true" || text == "false" || text == "True" || text == "False";
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const auto& text) {
    return text == "--help" || text == "-h";
  });
}

bool looks_named(const std::string& text) { return text.size() > 1 && text.front() == '-'; }

}  // namespace

OptionTable::Flag OptionTable::named_argument(const std::vector<std::string>& arguments,
                                              std::size_t& i) {
  const auto& argument = arguments[i];
  const auto equals = argument.find('=');
  const auto shown = argument.substr(0, equals);
  auto name = shown.substr(std::min(shown.find_first_not_of('-'), shown.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  auto* row = shown.starts_with("--") ? find(name) : nullptr;
  if (row == nullptr) {
    throw std::invalid_argument(
        formatted("{}: unknown option{}", printable(shown), suggestion(name, "--")));
  }
  if (equals != std::string::npos) return {row, argument.substr(equals + 1)};
  const bool has_next = i + 1 < arguments.size();
  if (row->kind == OptionKind::boolean) {
    return {row, has_next && is_truth(arguments[i + 1]) ? arguments[++i] : "true"};
  }
  // A single dash may begin a negative number or name standard input; two begin an option.
  if (!has_next || arguments[i + 1].starts_with("--")) {
    throw std::invalid_argument(formatted("--{}: needs a value", name));
  }
  return {row, arguments[++i]};
}

OptionTable::Flag OptionTable::bare_argument(const std::string& text,
                                             const std::vector<Flag>& earlier) {
  for (auto& row : rows_) {
    const bool taken = std::any_of(
        earlier.begin(), earlier.end(), [&](const Flag& flag) { return flag.row == &row; });
    if (row.positional && !taken) return {&row, text};
  }
  throw std::invalid_argument(
      formatted("{}: unexpected argument{}", printable(text), suggestion(text, "--")));
}

std::vector<OptionTable::Flag> OptionTable::scan(const std::vector<std::string>& arguments) {
  std::vector<Flag> flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool named = looks_named(arguments[i]);
    auto flag = named ? named_argument(arguments, i) : bare_argument(arguments[i], flags);
    for (const auto& earlier : flags) {
      if (earlier.row == flag.row) {
        throw std::invalid_argument(formatted("--{}: given twice, received {} and {}",
                                              flag.row->name,
                                              printable(earlier.text),
                                              printable(flag.text)));
      }
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::optional<std::string> OptionTable::parse(const std::vector<std::string>& arguments) {
  if (asks_for_help(arguments)) return help();
  const auto flags = scan(arguments);
  for (const auto& flag : flags) {
    if (flag.row == &config_) read_file(flag.text);
  }
  for (const auto& flag : flags) {
    if (flag.row != &config_) {
      apply(*flag.row, flag.text, "--" + flag.row->name, OptionOrigin::flag);
    }
  }
  locate(rows_, *this);
  return std::nullopt;
}

void OptionTable::read_entries(const std::vector<ConfigEntry>& entries) {
  for (const auto& entry : entries) apply(entry);
  locate(rows_, *this);
}

void OptionTable::read_words(const std::string& words, const std::string& source) {
  std::vector<std::string> given;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      throw std::invalid_argument(
          formatted("{}: needs key=value words, received {}", source, printable(word)));
    }
    const auto name = word.substr(0, equals);
    if (std::find(given.begin(), given.end(), name) != given.end())
      throw std::invalid_argument(formatted("{}: {}: given twice", source, printable(name)));
    given.push_back(name);
    apply(ConfigEntry{.name = name, .text = word.substr(equals + 1), .source = source});
  }
}

}  // namespace dimred
