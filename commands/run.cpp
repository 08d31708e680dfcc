#include "commands/run.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <utility>

#include "launch/rank_info.h"
#include "options/option_help.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/suggestion.h"

namespace dimred::commands {
namespace {

/// Other libraries' texts may go on with a stack trace: the first line says what happened. A text
/// that came from a file may have megabytes.
std::string first_line(std::string text) {
  constexpr std::size_t longest = 2000;
  text.resize(std::min(text.find('\n'), text.size()));
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

std::string describe(const std::filesystem::filesystem_error& error) {
  auto text = formatted("cannot use {}", error.path1());
  if (!error.path2().empty()) text += formatted(" and {}", error.path2());
  return formatted("{}: {}", text, error.code().message());
}

/// Also where the environment is nonsense: somebody has to say so.
bool is_rank_0() {
  try {
    return launch::discover().rank == 0;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

void silence_output() {
  require_environment(std::freopen("/dev/null", "w", stdout) != nullptr,
                      "[output] cannot open /dev/null: {}",
                      std::strerror(errno));
}

void flush_output() {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const auto* reason =
      errno == 0 ? "an earlier write failed; the disk may be full" : std::strerror(errno);
  require_environment(written, "[output] cannot write standard output: {}", reason);
}

}  // namespace

int report(const std::string& name, const std::string& text, int code) {
  std::fflush(stdout);
  put_text(stderr, formatted("{}: error: {}\n", name, first_line(text)));
  return code;
}

ErrorReport error_report_of(const std::exception& error) {
  if (dynamic_cast<const std::invalid_argument*>(&error) != nullptr)
    return {error.what(), exit_caller};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return {describe(*file)};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {"not enough memory"};
  return {error.what()};
}

int run(const std::string& name,
        const std::function<int()>& command,
        const ReportToRanks& report_to_ranks,
        int environment_code) {
  // Where a limit on the size of files stands in the way, the write fails and says so.
  std::signal(SIGXFSZ, SIG_IGN);
  const bool reports = is_rank_0();
  try {
    if (!reports) silence_output();
    const int code = command();
    flush_output();
    return code;
  } catch (const std::exception& error) {
    const auto [text, kind] = error_report_of(error);
    const int code = kind == exit_environment ? environment_code : kind;
    if (reports || !report_to_ranks) report(name, text, code);
    if (report_to_ranks) report_to_ranks(text);
    return code;
  } catch (...) {
    return report(name, "unknown exception", environment_code);
  }
}

std::vector<std::string> arguments_after(int count, char** values, int first) {
  return {values + std::min(first, count), values + count};
}

void print(const std::string& text) { put_text(stdout, text); }

bool printed_help(OptionTable& table,
                  const std::vector<std::string>& arguments,
                  const std::string& more) {
  const auto help = requested_help(table, arguments);
  if (!help) table.parse(arguments);
  if (is_rank_0())
    for (const auto& line : table.notices()) put_text(stderr, line + "\n");
  if (!help) return false;
  // --help names and --help json are for programs.
  const bool for_people = !help->starts_with("--") && !help->starts_with('{');
  print(for_people ? *help + more : *help);
  return true;
}

std::string summaries(std::span<const Subcommand> all, std::size_t column) {
  std::string text;
  for (const auto& row : all)
    text +=
        formatted("  {}{}{}\n", row.name, std::string(column - row.name.size(), ' '), row.summary);
  return text;
}

Subcommand subcommand(std::span<const Subcommand> all,
                      const std::string& name,
                      std::vector<std::string> flags,
                      const std::string& unknown,
                      const std::string& help) {
  const auto found = std::ranges::find(all, name, &Subcommand::name);
  if (found != all.end()) return *found;
  for (const auto& known : all) flags.emplace_back(known.name);
  throw std::invalid_argument(unknown + suggestion(name, flags, "; see " + help));
}

Row add_threads_option(OptionTable& table, std::int64_t& threads) {
  return table
      .add("threads", &threads, "worker threads; 0: all cores of this process", between(0, 4096))
      .role(OptionRole::threads);
}

Row add_take_option(OptionTable& table, std::string& take, const std::string& unset) {
  const std::vector<std::pair<std::string, std::string>> names{
      {unset, ""}, {"raw", "raw"}, {"averaged", "averaged"}};
  return table.add_choice("take",
                          &take,
                          formatted("weights to read if a checkpoint has raw and averaged ones; "
                                    "{}: dimred chooses by the keys' names",
                                    unset),
                          names);
}

ResultPlace result_place(const OptionTable& table,
                         const std::filesystem::path* field,
                         ResultMark mark) {
  ResultPlace place{
      .path = *field, .option = formatted("--{}", table.at(field).name), .mark = std::move(mark)};
  if (const auto* row = table.row(OptionRole::overwrite)) place.overwrite = row->value() == "true";
  return place;
}

bool asks_for(const std::vector<std::string>& arguments, std::string_view option) {
  const auto flag = formatted("--{}", option);
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  });
}

}  // namespace dimred::commands
