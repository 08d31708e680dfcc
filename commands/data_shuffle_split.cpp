#include <filesystem>
#include <utility>

#include "commands/data_command.h"
#include "commands/data_source.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/output_folder.h"
#include "data/write_records.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

struct ShuffleSplitOptions {
  SourceOptions source{.split = SplitChoice::train};
  std::filesystem::path output;
  std::int64_t ranks = 1;
  std::int64_t seed = 0;
};

OptionTable split_table(ShuffleSplitOptions& options) {
  OptionTable table("dimred data shuffle-split",
                    "shuffle a data set into one Base64 file for each rank, all of equal size. A "
                    "later start keeps finished files");
  add_source_options(table, options.source);
  table.group("Output");
  table.add("output", &options.output, "new or empty folder to write")
      .role(OptionRole::output)
      .positional()
      .essential();
  table
      .add("nranks",
           &options.ranks,
           "number of files to write, one for each rank",
           between(1, 1'000'000))
      .essential();
  table
      .add("seed",
           &options.seed,
           "seed of the shuffle, and of the choice of samples that are repeated to fill the files",
           at_least(0))
      .essential();
  add_store_options(table);
  return table;
}

/// Leaves out the samples that cannot be read, if the options say so, before the samples are
/// divided into files of equal size.
data::SkippedSamples leave_out_bad(const SourceOptions& options, SourcePart& part) {
  if (!options.dataset.skip_bad) return {};
  auto readable = data::readable_samples(*part.dataset, thread_count(options));
  require_environment(!readable.indices.empty(),
                      "[data] none of the {} samples can be read ({})",
                      part.dataset->size(),
                      readable.left_out.first);
  if (readable.left_out.count > 0)
    part.dataset = data::subset(part.dataset, std::move(readable.indices));
  return readable.left_out;
}

}  // namespace

int data_shuffle_split(const std::vector<std::string>& arguments) {
  ShuffleSplitOptions options;
  auto table = split_table(options);
  if (printed_help(table, arguments)) return exit_success;
  check_output(options.output, options.source);
  require(options.source.split != SplitChoice::both,
          "[data] shuffle-split needs --split train or --split test");
  auto part = open_source(options.source).front();
  require_cache_for_all(part, "shuffle-split");
  const auto source = source_text(part);
  const auto bad = leave_out_bad(options.source, part);
  const auto size = part.dataset->size();
  auto plan =
      data::shuffle_split_plan(size, options.ranks, static_cast<std::uint64_t>(options.seed));
  plan.threads = thread_count(options.source);
  const data::OutputFolder folder(
      options.output,
      formatted("dimred data shuffle-split nranks = {}, seed = {} of {}{}",
                options.ranks,
                options.seed,
                source,
                bad.count > 0 ? formatted(", without {}", counted(bad.count, "bad sample")) : ""));
  data::write_records(
      *part.dataset, plan, folder, progress_bar("shuffle-split", plan.count, options.source.quiet));
  data::write_lists(*part.dataset, plan, folder);
  report_samples(part, {.samples = size, .bad = bad.count, .first_bad = bad.first});
  if (!options.source.quiet)
    print(formatted("{} of {}, {} of them repeated, in {}\n",
                    counted(options.ranks, "file"),
                    counted(plan.count / options.ranks, "image"),
                    count_text(plan.count - size),
                    options.output));
  return exit_success;
}

}  // namespace dimred::commands
