#include "data/open.h"

#include <algorithm>
#include <utility>

#include "data/idx.h"
#include "data/shard_source.h"
#include "data/splits.h"
#include "data/unread_files.h"
#include "options/option_values.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data::formats {
#define DIMRED_FORMAT(name) DatasetFormat name();
#include "data/formats.inc"
#undef DIMRED_FORMAT
}  // namespace dimred::data::formats

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

const std::vector<DatasetFormat>& registry() {
  static const auto all = [] {
    std::vector<DatasetFormat> entries;
#define DIMRED_FORMAT(of) entries.push_back(formats::of()), entries.back().name = #of;
#include "data/formats.inc"
#undef DIMRED_FORMAT
    return entries;
  }();
  return all;
}

const DatasetFormat& format_of(const std::string& kind) {
  const auto found = std::ranges::find(registry(), kind, &DatasetFormat::name);
  require(found != registry().end(), "[data] has no data format for the kind {}", kind);
  return *found;
}

/// Options that would have no effect are a misunderstanding; what lies at the path decides it.
void refuse_idle_options(const DatasetOptions& options, const DatasetFormat& format) {
  const auto need = [&](bool holds, const char* rule, const auto& received) {
    require(holds, "[data] {}, received {} with data of the kind {}", rule, received, format.name);
  };
  const bool mock = format.name == "mock";
  need(options.labels_offset == 0 || format.has_records,
       "labels_offset needs TFRecord or Base64 files",
       options.labels_offset);
  need(options.cache.empty() || format.has_records,
       "data_cache needs TFRecord or Base64 files",
       options.cache);
  need(options.mock_shape == DatasetOptions{}.mock_shape || mock,
       "mock_shape needs dataset = mock",
       joined(options.mock_shape, ", ", number_text));
  need(options.path.empty() || !mock, "data needs another dataset", options.path);
  need(options.test_path.empty() || !mock, "test_data needs another dataset", options.test_path);
}

/// The classes and samples that were announced, and the classes of the training set.
void require_as_announced(const Dataset& dataset,
                          const DatasetOptions& options,
                          bool train,
                          const std::vector<std::string>& class_names) {
  const auto classes = dataset.classes();
  require(!train || options.num_samples == 0 || options.num_samples == dataset.size(),
          "[data] num_samples needs to be the size of the training set ({}, in {}), received {}",
          dataset.size(),
          dataset.title(),
          options.num_samples);
  require(options.num_classes == 0 || options.num_classes >= classes,
          "[data] num_classes needs to be at least the number of classes in the {} set ({}, in "
          "{}), received {}",
          split_text(train),
          classes,
          dataset.title(),
          options.num_classes);
  require(class_names.empty() || class_names == dataset.class_names(),
          "[data] needs the training set's {} classes in the test set, received {} classes in {}",
          class_names.size(),
          classes,
          dataset.title());
}

[[noreturn]] void refuse_missing_part(const DatasetFormat& format,
                                      bool train,
                                      const std::filesystem::path& path) {
  refuse("[data] needs {} for the {} set, received {}{}{}",
         train ? format.train_files : format.test_files,
         split_text(train),
         path,
         train ? "" : ", which has none; give the set with --test_data",
         remark_on_files_in(path));
}

/// nullptr where the path has no such part, unless it is `needed`.
std::unique_ptr<Dataset> open_part(const DatasetOptions& options,
                                   bool train,
                                   const std::vector<std::string>& class_names,
                                   bool needed) {
  const bool named = !train && !options.test_path.empty();
  auto path = named ? options.test_path : options.path;
  auto kind = options.kind;
  if (path.empty() && kind != "mock") {
    path = default_fashion_mnist_folder();
    if (kind == "auto") kind = "idx";
  }
  const bool streamed = source_of(path) != nullptr;
  if (kind == "auto") kind = streamed ? "tfrecord" : kind_of(path);
  require(!streamed || kind == "tfrecord",
          "[data] can stream only TFRecord files, received dataset = {}",
          kind);
  const auto& format = format_of(kind);
  if (train) refuse_idle_options(options, format);
  auto dataset = format.open({options, path, train, named, class_names});
  if (!dataset && needed) refuse_missing_part(format, train, path);
  if (dataset) require_as_announced(*dataset, options, train, class_names);
  return dataset;
}

}  // namespace

std::vector<std::string> dataset_kinds() {
  auto kinds = texts_of(registry(), &DatasetFormat::name);
  kinds.insert(kinds.begin(), "auto");
  return kinds;
}

std::string kind_of(const fs::path& path) {
  const auto found = std::ranges::find_if(
      registry(), [&](const DatasetFormat& format) { return format.holds(path); });
  require(found != registry().end(),
          "[data] needs a folder, a list or a pattern, received {}{}",
          path,
          fs::exists(path) ? ", which is none of them"
                           : ", which does not exist (without --data it is Fashion-MNIST)");
  return found->name;
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      bool train,
                                      const std::vector<std::string>& class_names) {
  return open_part(options, train, class_names, /*needed=*/true);
}

std::unique_ptr<Dataset> open_test_set_if_any(const DatasetOptions& options,
                                              const std::vector<std::string>& class_names) {
  return open_part(options, /*train=*/false, class_names, /*needed=*/!options.test_path.empty());
}

void add_kind_option(OptionTable& table, std::string& kind, const std::string& help) {
  std::vector<std::pair<std::string, std::string>> choices;
  for (const auto& name : dataset_kinds()) choices.emplace_back(name, name);
  table.add_choice("dataset", &kind, help, choices);
}

void add_stream_options(OptionTable& table, double& cache, std::int64_t& fetches) {
  table
      .add("stream_cache",
           &cache,
           "GB of disk for streaming a URL's TFRecord files; 0: download all files first",
           between(0, 1e9))
      .role(OptionRole::stream_cache)
      .may_change();
  table
      .add("stream_fetches",
           &fetches,
           "number of streamed files that each rank fetches at once",
           between(1, 256))
      .role(OptionRole::stream_fetches)
      .may_change();
}

}  // namespace dimred::data
