#include "commands/merge_command.h"

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "commands/byte_progress.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "merge/merge.h"
#include "support/atomic_file.h"
#include "support/byte_size.h"
#include "support/console.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/options.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  fs::path source;
  std::vector<fs::path> more;  // sources
  fs::path output;
  fs::path sweep;
  merge::Options merge;
  ByteSize shard_size;
  bool quiet = false;
};

const std::vector<std::pair<std::string, std::string>>& dtype_names() {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"same", ""}, {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}};
  return names;
}

const std::vector<std::pair<std::string, std::string>>& take_names() {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"usual", ""}, {"raw", "raw"}, {"averaged", "averaged"}};
  return names;
}

/// The rows that a line of a sweep has, too.
void add_recipe_options(OptionTable& table, merge::Recipe& recipe) {
  table.group("Checkpoints");
  auto& window = recipe.window;
  table.add("from", &window.from, "first step", at_least(0));
  table.add("to", &window.to, "last step; 0: no limit", at_least(0));
  table.add("stride",
            &window.stride,
            "1: every checkpoint; N: every Nth, counted backwards from the newest",
            at_least(1));
  table.add("last", &window.last, "number of the newest of these; 0: all", at_least(0));
  table.group("Coefficients");
  table.add_choice(
      "kind",
      &recipe.coefficients.kind,
      "mean; linear, cosine, minus-sqrt: what a rate that decays so would have given "
      "the updates between checkpoints, by their steps; wma: 1, 2, 3, ...; ema: "
      "decay^age; pma-ema: alpha of each next one and the rest of the sum before; power: "
      "(step in the name)^gamma",
      merge::kind_names());
  table.add("decay", &recipe.coefficients.decay, "of ema", between_open(0, 1))
      .needs_in_files(is("kind", {"ema"}));
  table.add("alpha", &recipe.coefficients.alpha, "of pma-ema", positive(1))
      .needs_in_files(is("kind", {"pma-ema"}));
  table
      .add("gamma",
           &recipe.coefficients.gamma,
           "makes the weight of step t grow as t^gamma",
           between(0, 1000))
      .needs_in_files(is("kind", {"power"}));
  table.add("coefficients",
            &recipe.file,
            "takes a number a line, oldest first, or REGEX: c1 c2 ... by tensors' names");
}

void add_output_options(OptionTable& table, MergeOptions& options) {
  auto& merge = options.merge;
  table.group("Output");
  table.add("output", &options.output, "folder to write: safetensors, side files, merge.json")
      .role(OptionRole::output);
  table.add_choice("dtype", &merge.dtype, "type of the merged weights", dtype_names());
  table.add("shard_size",
            &options.shard_size,
            "limits each shard, as 20KB or 5 (GB); 0 keeps the shards copied from");
  table.add("copy_from",
            &merge.copy_from,
            "checkpoint that side files, integers and BatchNorm's statistics are copied from: "
            "latest, oldest, or its name; given, integers may differ");
  table.add("allow_different_config",
            &merge.allow_different_config,
            "merge weights whose configurations or tokenizers differ");
  table.add("base", &merge.base, "folds the mean of LoRA adapters into this checkpoint");
  table.add_choice("take",
                   &merge.take,
                   "takes these weights of files that hold raw and averaged ones",
                   take_names());
  table.add("sweep",
            &options.sweep,
            "several outputs in one reading, in numbered folders of the output: on each line "
            "key=value words, such as kind=ema decay=0.95 last=8");
}

OptionTable table_of(MergeOptions& options) {
  OptionTable table("dimred merge", "checkpoints of any size into one");
  table.group("Files");
  table
      .add("source",
           &options.source,
           "checkpoints: weight files, folders of Hugging Face's, snapshots (.h5), a folder of "
           "such, a list (.txt) or a quoted pattern; more may follow")
      .role(OptionRole::input)
      .positional();
  table.rest([&](const std::string& text) {
    require(!looks_like_url(text),
            "[merge] a URL needs to be the one SOURCE, received {}",
            without_credentials(text));
    options.more.push_back(fs::absolute(text));
  });
  add_recipe_options(table, options.merge.recipe);
  add_output_options(table, options);
  table.group("Machine");
  table.add("threads", &options.merge.threads, "0: all cores of this process", between(0, 4096))
      .role(OptionRole::threads);
  table.add("block",
            &options.merge.block,
            "elements read at a time; memory is threads x block x 16 bytes, and the result does "
            "not depend on it",
            between(1, 1 << 28));
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet);
  add_store_options(table);
  return table;
}

void require_one_source(const OptionTable& table, const merge::Recipe& recipe) {
  require(recipe.file.empty() || !table.was_set(&recipe.coefficients.kind),
          "[merge] needs --kind or --coefficients, received both");
}

/// The recipes that the lines of a file say.
std::vector<merge::Recipe> sweep_of(const fs::path& file) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
  const auto content = InputFile(file).text(most_bytes);
  std::istringstream lines(std::string(without_byte_order_mark(content, file.string())));
  std::vector<merge::Recipe> recipes;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trimmed(line).empty() || trimmed(line).starts_with('#')) continue;
    merge::Recipe recipe;
    OptionTable table("dimred merge", "a line of a sweep");
    add_recipe_options(table, recipe);
    const auto place = formatted("{}:{}", file, number);
    table.read_words(line, place, file.parent_path());
    try {
      require_effects(table);
      require_one_source(table, recipe);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(formatted("{}: {}", place, error.what()));
    }
    recipes.push_back(std::move(recipe));
  }
  require(!recipes.empty(), "[merge] --sweep '{}' holds no line", file);
  return recipes;
}

void require_one_choice(const OptionTable& table, const MergeOptions& options) {
  const auto& recipe = options.merge.recipe;
  require_one_source(table, recipe);
  if (options.sweep.empty()) return;
  merge::Recipe of_a_line;
  OptionTable line("dimred merge", "a line of a sweep");
  add_recipe_options(line, of_a_line);
  for (const auto& row : table.rows())
    require(!row.was_set() || line.row(row.name) == nullptr,
            "[merge] --{} belongs into the lines of --sweep",
            row.name);
}

}  // namespace

int merge_command(const std::vector<std::string>& arguments) {
  MergeOptions options;
  auto table = table_of(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  require(!options.source.empty(), "[merge] needs SOURCE, checkpoints to merge");
  require(!options.output.empty(), "[merge] needs --output FOLDER");
  require_one_choice(table, options);
  auto& merge = options.merge;
  merge.shard_size = options.shard_size.bytes;
  merge.copy_from_given = table.was_set(&merge.copy_from);
  if (!options.sweep.empty()) merge.sweep = sweep_of(options.sweep);
  auto sources = options.more;
  sources.insert(sources.begin(), options.source);
  Console console(options.quiet);
  merge.progress = byte_progress(console, "merge");
  const auto report = merge::merge(sources, options.output, merge);
  console.line(merge::describe(report));
  return exit_success;
}

}  // namespace dimred::commands
