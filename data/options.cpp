#include "data/options.h"

#include <utility>

#include "data/open.h"

namespace dimred::data {

void add_kind_option(OptionTable& table, std::string& kind, const std::string& help) {
  std::vector<std::pair<std::string, std::string>> choices;
  for (const auto& name : dataset_kinds()) choices.emplace_back(name, name);
  table.add_choice("dataset", &kind, help, choices);
}

void add_stream_options(OptionTable& table, double& cache, std::int64_t& fetches) {
  table.add("stream_cache",
            &cache,
            "GB of disk in store_cache through which the TFRecord files of a data URL are streamed "
            "while they are used, 0: all are downloaded first; less than the data set needs "
            "shuffle_buffer_size in training",
            between(0, 1e9));
  table.add("stream_fetches",
            &fetches,
            "of these files that each rank fetches at a time",
            between(1, 256));
}

}  // namespace dimred::data
