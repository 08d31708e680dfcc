#include <filesystem>

#include "commands/data_command.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/open.h"
#include "data/shard_index.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

struct DataIndexOptions {
  data::DatasetOptions dataset;
  std::filesystem::path output;
  bool overwrite = false;
  bool quiet = false;
};

OptionTable index_table(DataIndexOptions& options) {
  OptionTable table("dimred data index",
                    "index TFRecord files, so that a run can stream these files without a scan of "
                    "all files first");
  table.group("Data");
  table.add("data", &options.dataset.path, "folder, file, list of files or pattern to read")
      .role(OptionRole::data)
      .positional();
  data::add_cache_options(table, options.dataset);
  table.add_choice(
      "on_bad_sample",
      &options.dataset.skip_bad,
      "fail: end the command at an unreadable record; skip: leave out and count such records",
      {{"fail", false}, {"skip", true}});
  table.group("Output");
  table
      .add("output",
           &options.output,
           formatted("index file to write; the file name must be {}", data::shards_index_name))
      .role(OptionRole::output);
  table.add("overwrite", &options.overwrite, "replace an existing index")
      .role(OptionRole::overwrite);
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet);
  add_store_options(table, /*uploads=*/false, /*shards_alone=*/true);
  return table;
}

}  // namespace

int data_index(const std::vector<std::string>& arguments) {
  DataIndexOptions options;
  auto table = index_table(options);
  if (printed_help(table, arguments)) return exit_success;
  const auto& dataset = options.dataset;
  require(!dataset.path.empty(), "[data] needs --data PATH");
  require(dataset.stream_cache == 0 || data::source_of(dataset.path),
          "[data] stream_cache needs data at a URL, received {}",
          dataset.path);
  require(options.output.filename() == data::shards_index_name,
          "[data] needs the file name {} for --output, received {}",
          data::shards_index_name,
          options.output.empty() ? std::filesystem::path("none") : options.output);
  require_regular_or_absent(options.output);
  const auto place = result_place(table, &options.output);
  if (std::filesystem::exists(options.output)) require_result_place(place);
  const auto indices = data::index_shards(dataset.path, dataset.cache, dataset.skip_bad);
  std::int64_t samples = 0, bad = 0;
  for (const auto& [name, shard] : indices) {
    samples += std::ssize(shard.index.entries);
    bad += shard.index.problem_count;
  }
  create_folders(options.output.parent_path());
  write_result(place, data::to_bytes(indices));
  if (!options.quiet)
    print(formatted("{}, {}, {}in {}\n",
                    counted(std::ssize(indices), "file"),
                    counted(samples, "record"),
                    bad > 0 ? formatted("{} left out, ", counted(bad, "bad one")) : std::string(),
                    options.output));
  return exit_success;
}

}  // namespace dimred::commands
