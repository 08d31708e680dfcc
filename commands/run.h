#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "options/options.h"
#include "support/result_file.h"

// The outermost edge that all our commands share: exit codes and one-line errors.
namespace dimred::commands {

constexpr int exit_success = 0;
constexpr int exit_environment = 1;  // a file, a device, memory, or a bug of ours
constexpr int exit_caller = 2;       // bad input; nothing was written

/// An exception as the caller gets it: one line and an exit code.
struct ErrorReport {
  std::string text;
  int code = exit_environment;
};
ErrorReport error_report_of(const std::exception& error);

/// How a rank that cannot start reports to the others, which wait for it.
using ReportToRanks = std::function<void(const std::string& text)>;

/// Runs `command` and returns its exit code; an exception becomes the one line
/// "NAME: error: TEXT" on standard error and 2 for std::invalid_argument, else 1. Standard output
/// that cannot be written (a full disk behind a pipe) is an error too. Ranks other than 0 print
/// nothing; with `report_to_ranks`, the text goes there, and rank 0 reports it. `environment_code`
/// takes the place of 1.
int run(const std::string& name,
        const std::function<int()>& command,
        const ReportToRanks& report_to_ranks = {},
        int environment_code = exit_environment);

/// Says "NAME: error: TEXT" (its first line, made printable) on standard error; returns `code`.
int report(const std::string& name, const std::string& text, int code);

/// argv[first..] as strings.
std::vector<std::string> arguments_after(int count, char** values, int first);

/// Prints `text` on standard output.
void print(const std::string& text);

/// Reads the arguments; prints --help, and `more` behind a text for people, where they ask for it,
/// and is then true.
bool printed_help(OptionTable& table,
                  const std::vector<std::string>& arguments,
                  const std::string& more = {});

/// A part of a program or a command, by its name.
struct Subcommand {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& arguments);  // nullptr: another program has it
  int environment_code = exit_environment;                // where 1 is an answer of its own
};

/// A line each, the summaries from `column` on.
std::string summaries(std::span<const Subcommand> all, std::size_t column);

/// The one that is called `name`; else throws std::invalid_argument("UNKNOWN; did you mean X?"), X
/// the nearest of them and of `flags`, or "UNKNOWN; see HELP" where none is near.
Subcommand subcommand(std::span<const Subcommand> all,
                      const std::string& name,
                      std::vector<std::string> flags,
                      const std::string& unknown,
                      const std::string& help);

/// Adds the row `threads` of a command that does not train.
Row add_threads_option(OptionTable& table, std::int64_t& threads);

/// Adds the row `take` of a command that reads other programs' checkpoints; `unset` is the word for
/// the usual choice.
Row add_take_option(OptionTable& table, std::string& take, const std::string& unset);

/// The output that the row of `field` names, and the command's --overwrite, if it has one.
ResultPlace result_place(const OptionTable& table,
                         const std::filesystem::path* field,
                         ResultMark mark = {});

/// Whether `--option` or `--option=...` is among them.
bool asks_for(const std::vector<std::string>& arguments, std::string_view option);

}  // namespace dimred::commands
