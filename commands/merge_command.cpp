#include "commands/merge_command.h"

#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "commands/byte_progress.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "merge/merge.h"
#include "options/byte_size.h"
#include "options/effects.h"
#include "options/options.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/list_lines.h"
#include "support/url.h"

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

const std::vector<std::pair<std::string, std::string>> dtype_names{
    {"same", ""}, {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}};

/// The rows that a line of a sweep has, too.
void add_recipe_options(OptionTable& table, merge::Recipe& recipe) {
  table.group("Checkpoints");
  auto& window = recipe.window;
  table.add("from", &window.from, "merge checkpoints from this training step on", at_least(0))
      .essential();
  table
      .add("to", &window.to, "merge checkpoints up to this training step; 0: no limit", at_least(0))
      .essential();
  table.add("stride",
            &window.stride,
            "merge every Nth checkpoint, counted backwards from the newest",
            at_least(1));
  table
      .add("last",
           &window.last,
           "merge only the newest N of the chosen checkpoints; 0: all",
           at_least(0))
      .essential();
  table.group("Coefficients");
  table
      .add_choice("kind",
                  &recipe.coefficients.kind,
                  "coefficients: equal (mean), from a learning-rate decay (linear, cosine, "
                  "minus-sqrt), or from a moving average (wma, ema, pma-ema, power)",
                  merge::kind_names())
      .essential();
  table
      .add("decay",
           &recipe.coefficients.decay,
           "factor per checkpoint: each coefficient is decay times the coefficient of the next "
           "newer checkpoint",
           between_open(0, 1))
      .needs_in_files(is("kind", {"ema"}))
      .essential();
  table
      .add("alpha",
           &recipe.coefficients.alpha,
           "update of the mean, from the oldest checkpoint on: mean <- (1 - alpha) mean + alpha "
           "checkpoint",
           positive(1))
      .needs_in_files(is("kind", {"pma-ema"}));
  table
      .add("gamma",
           &recipe.coefficients.gamma,
           "exponent: the coefficient of the checkpoint of step t is proportional to t^gamma",
           between(0, 1000))
      .needs_in_files(is("kind", {"power"}));
  table
      .add("coefficients",
           &recipe.file,
           "file with one coefficient per line, oldest checkpoint first, or with lines 'REGEX: c1 "
           "c2 ...' for matching tensors")
      .essential();
}

void add_output_options(OptionTable& table, MergeOptions& options) {
  auto& merge = options.merge;
  table.group("Output");
  table
      .add("output",
           &options.output,
           "folder to write: safetensors, configuration and tokenizer files, merge.json")
      .role(OptionRole::output)
      .essential();
  table.add_choice("dtype", &merge.dtype, "type of the merged weights", dtype_names).essential();
  table.add("shard_size",
            &options.shard_size,
            "largest size of a shard; a number without unit means GB; 0: the size in the "
            "checkpoint of --copy_from");
  table.add("copy_from",
            &merge.copy_from,
            "copy configuration and tokenizer files, integer tensors and BatchNorm's statistics "
            "from this checkpoint: latest, oldest or a checkpoint's name");
  table.add("allow_different_config",
            &merge.allow_different_config,
            "merge weights whose configurations or tokenizers differ");
  table.add("base",
            &merge.base,
            "add the mean of the LoRA adapters in SOURCE to the weights of this checkpoint");
  add_take_option(table, merge.take, "usual");
  table
      .add(
          "sweep",
          &options.sweep,
          "file with one merge per line, such as kind=ema decay=0.95; outputs get numbered folders")
      .essential();
}

OptionTable table_of(MergeOptions& options) {
  OptionTable table("dimred merge", "merge checkpoints of any size into one");
  table.group("Files");
  table
      .add("source",
           &options.source,
           "checkpoints: weight files, Hugging Face folders, snapshots (.h5); or a folder, list "
           "(.txt) or quoted pattern of checkpoints")
      .role(OptionRole::input)
      .positional()
      .essential();
  table.rest("[SOURCE...]", [&](const std::string& text) {
    require(!looks_like_url(text),
            "[merge] a URL needs to be the only SOURCE, received {} beside another SOURCE",
            without_credentials(text));
    options.more.push_back(fs::absolute(text));
  });
  add_recipe_options(table, options.merge.recipe);
  add_output_options(table, options);
  table.group("Machine");
  add_threads_option(table, options.merge.threads);
  table.add("block",
            &options.merge.block,
            "elements that each thread reads at a time; memory use: threads x block x 16 bytes",
            between(1, 1 << 28));
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet);
  add_store_options(table);
  return table;
}

void require_one_source(const OptionTable& table, const merge::Recipe& recipe) {
  require(recipe.file.empty() || !table.was_set(&recipe.coefficients.kind),
          "[merge] needs either --kind or --coefficients, received both");
}

/// The options that one line of a sweep's file may set.
OptionTable table_of_line(merge::Recipe& recipe) {
  OptionTable table("dimred merge",
                    "make one output with the options in a line of the --sweep file");
  add_recipe_options(table, recipe);
  return table;
}

/// The recipes that the lines of a file say.
std::vector<merge::Recipe> sweep_of(const fs::path& file) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
  std::vector<merge::Recipe> recipes;
  for_each_list_line(file, most_bytes, [&](const std::string& line, const std::string& place) {
    merge::Recipe recipe;
    auto table = table_of_line(recipe);
    table.read_words(std::string(without_comment(line)), place, file.parent_path());
    try {
      require_effects(table);
      require_one_source(table, recipe);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(formatted("{}: {}", place, error.what()));
    }
    recipes.push_back(std::move(recipe));
  });
  require(!recipes.empty(),
          "[merge] --sweep needs a file with at least one line, but '{}' has none",
          file);
  return recipes;
}

void require_one_choice(const OptionTable& table, const MergeOptions& options) {
  const auto& recipe = options.merge.recipe;
  require_one_source(table, recipe);
  if (options.sweep.empty()) return;
  merge::Recipe of_a_line;
  const auto line = table_of_line(of_a_line);
  for (const auto& row : table.rows())
    require(
        !row.was_set() || line.row(row.name) == nullptr,
        "[merge] --sweep does not work with --{}; put this option into the lines of the sweep file",
        row.name);
}

}  // namespace

int merge_command(const std::vector<std::string>& arguments) {
  MergeOptions options;
  auto table = table_of(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  require(!options.source.empty(), "[merge] needs SOURCE, the checkpoints to merge");
  require(!options.output.empty(), "[merge] needs --output FOLDER");
  require_one_choice(table, options);
  auto& merge = options.merge;
  merge.shard_size = options.shard_size.bytes;
  merge.copy_from_given = table.was_set(&merge.copy_from);
  if (!options.sweep.empty()) merge.sweep = sweep_of(options.sweep);
  auto sources = options.more;
  sources.insert(sources.begin(), options.source);
  Console console(options.quiet);
  ByteProgress progress{byte_progress(console, "merge")};
  merge.progress = &progress;
  const auto report = merge::merge(sources, options.output, merge);
  console.line(merge::describe(report));
  return exit_success;
}

}  // namespace dimred::commands
