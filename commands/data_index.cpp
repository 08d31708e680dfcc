#include <filesystem>

#include "commands/data_command.h"
#include "commands/data_source.h"
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
  std::filesystem::path data, cache, output;
  double stream_cache = 0;
  std::int64_t stream_fetches = 4;
  bool skip_bad = false;
  bool overwrite = false;
  bool quiet = false;
};

OptionTable index_table(DataIndexOptions& options) {
  OptionTable table("dimred data index",
                    "index the records of TFRecord files, so that a run can stream them without a "
                    "first pass over all");
  table.group("Data");
  table.add("data", &options.data, "folder, file, list of files or pattern to read")
      .role(OptionRole::data)
      .positional();
  table.add("data_cache",
            &options.cache,
            "folder for indices and decompressed copies (default: .dimred beside the data, else "
            "~/.cache/dimred)");
  data::add_stream_options(table, options.stream_cache, options.stream_fetches);
  table.add_choice(
      "on_bad_sample",
      &options.skip_bad,
      "for a record that cannot be read: fail ends the command, skip leaves it out and counts it",
      {{"fail", false}, {"skip", true}});
  table.group("Output");
  table.add("output", &options.output, formatted("new file, named {}", data::shards_index_name))
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
  require(!options.data.empty(), "[data] needs --data PATH");
  require(options.stream_cache == 0 || data::source_of(options.data),
          "[data] stream_cache needs data at a URL, received {}",
          options.data);
  require(options.output.filename() == data::shards_index_name,
          "[data] needs an --output named {}, received {}",
          data::shards_index_name,
          options.output.empty() ? std::filesystem::path("none") : options.output);
  require_regular_or_absent(options.output);
  const auto place = result_place(table, &options.output);
  if (std::filesystem::exists(options.output)) require_result_place(place);
  const auto indices = data::index_shards(options.data, options.cache, options.skip_bad);
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
