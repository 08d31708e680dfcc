#include "commands/diff_command.h"

#include <cstdio>
#include <filesystem>

#include "checkpoints/verbs/diff.h"
#include "checkpoints/verbs/diff_json.h"
#include "commands/byte_progress.h"
#include "commands/diff_text.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "options/effects.h"
#include "options/options.h"
#include "support/console.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct DiffArguments {
  fs::path a;
  fs::path b;
  fs::path rename;
  verbs::DiffOptions diff;
  bool json = false;
  bool quiet = false;
};

void add_difference_options(OptionTable& table, DiffArguments& arguments) {
  auto& diff = arguments.diff;
  table.group("Comparison");
  table.add("rtol",
            &diff.tolerance.relative,
            "relative tolerance: equal if |a - b| <= atol + rtol * |b|",
            at_least(0));
  table.add("atol",
            &diff.tolerance.absolute,
            "absolute tolerance: equal if |a - b| <= atol + rtol * |b|",
            at_least(0));
  table.group("Tensors");
  table.add("rename",
            &arguments.rename,
            "file with lines REGEX -> TEXT; in a tensor name of A, TEXT replaces all matches of "
            "the first REGEX that matches");
  table.add(
      "include", &diff.include, "regular expression: compare only tensors whose name has a match");
  table.add("exclude", &diff.exclude, "regular expression: skip tensors whose name has a match");
  add_take_option(table, diff.take, "named");
}

OptionTable diff_table(DiffArguments& arguments) {
  OptionTable table(
      "dimred diff",
      "compare the tensors of two checkpoints; exit code 0: same, 1: different, 2: error");
  table.group("Files");
  table
      .add("a",
           &arguments.a,
           "first checkpoint: file, folder, shards, distributed checkpoint, snapshot or run")
      .role(OptionRole::input)
      .positional();
  table.add("b", &arguments.b, "second checkpoint, of the same or another kind")
      .role(OptionRole::input)
      .positional();
  add_difference_options(table, arguments);
  table.group("Output");
  table.add("json", &arguments.json, "print one JSON document with every tensor");
  table
      .add("quiet",
           &arguments.quiet,
           "print errors only; the exit code is 1 if the checkpoints differ")
      .role(OptionRole::quiet);
  table.group("Machine");
  add_threads_option(table, arguments.diff.threads);
  add_store_options(table);
  return table;
}

}  // namespace

int diff_command(const std::vector<std::string>& arguments) {
  constexpr int exit_different = 1;
  DiffArguments given;
  auto table = diff_table(given);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  require(!given.a.empty() && !given.b.empty(), "[diff] needs two checkpoints to compare, A and B");
  auto& options = given.diff;
  if (!given.rename.empty()) options.renames = verbs::read_rename_rules(given.rename);
  Console console(given.quiet);
  ByteProgress progress{byte_progress(console, "diff")};
  if (terminal_columns(stderr) > 0) options.progress = &progress;
  const auto difference = verbs::diff(given.a, given.b, options);
  console.clear();
  if (given.json) {
    if (!given.quiet)
      for (const auto& remark : difference.remarks) console.warn(remark);
    print(verbs::to_json(difference) + "\n");
  } else if (!given.quiet) {
    print(diff_text(difference, options.tolerance));
  }
  return difference.same ? exit_success : exit_different;
}

}  // namespace dimred::commands
