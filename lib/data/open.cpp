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
  require(found != registry().end(),
          "[data] needs one of the data formats {}, received {}",
          name_list(texts_of(registry(), &DatasetFormat::name)),
          kind);
  return *found;
}

/// Options that would have no effect are a misunderstanding; what lies at the path decides it.
void refuse_idle_options(const DatasetOptions& options, const DatasetFormat& format) {
  const auto need = [&](bool holds, const char* rule, const auto& received) {
    require(holds, "[data] {}, received {} for data of the kind {}", rule, received, format.name);
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
  need(options.path.empty() || !mock, "data needs a dataset other than mock", options.path);
  need(options.test_path.empty() || !mock,
       "test_data needs a dataset other than mock",
       options.test_path);
}

/// The classes and samples that were announced, and the classes of the training set.
void require_as_announced(const Dataset& dataset,
                          const DatasetOptions& options,
                          bool train,
                          const std::vector<std::string>& class_names) {
  const auto classes = dataset.classes();
  require(!train || options.num_samples == 0 || options.num_samples == dataset.size(),
          "[data] num_samples needs to equal the size of the training set ({} samples in {}), "
          "received {}",
          dataset.size(),
          dataset.title(),
          options.num_samples);
  require(options.num_classes == 0 || options.num_classes >= classes,
          "[data] num_classes needs to be at least the number of classes in the {} set ({} classes "
          "in {}), received {}",
          split_text(train),
          classes,
          dataset.title(),
          options.num_classes);
  require(class_names.empty() || class_names == dataset.class_names(),
          "[data] the test set needs the {} classes of the training set, received {} classes in {}",
          class_names.size(),
          classes,
          dataset.title());
}

/// Refuses a folder that holds files of arrays or records and a data set of another kind, such as
/// MNIST's files or TFRecord shards beside class folders: the first kind would be taken without a
/// word. A packed file may lie beside the data that it was made of.
void refuse_second_kind(const std::filesystem::path& path, const DatasetFormat& first) {
  if (first.name == "packed" || !fs::is_directory(path)) return;
  const auto has_files_of_its_own = [](const DatasetFormat& format) {
    return format.is_array || format.has_records;
  };
  const auto second = std::ranges::find_if(registry(), [&](const DatasetFormat& other) {
    if (other.name == first.name) return false;
    if (!has_files_of_its_own(first) && !has_files_of_its_own(other)) return false;
    return (other.lies_beside != nullptr ? other.lies_beside : other.holds)(path);
  });
  if (second != registry().end())
    refuse(
        "[data] {} has two data sets, one of the kind {} and one of the kind {}; put each data set "
        "into its own folder, or choose one with --dataset {} or --dataset {}",
        path,
        first.name,
        second->name,
        first.name,
        second->name);
}

[[noreturn]] void refuse_missing_part(const DatasetFormat& format,
                                      bool train,
                                      const std::filesystem::path& path) {
  refuse("[data] needs {} for the {} set, received {}{}{}",
         train ? format.train_files : format.test_files,
         split_text(train),
         path,
         train ? "" : ", which has no test set; give a test set with --test_data",
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
          "[data] streaming needs TFRecord files, received dataset = {}",
          kind);
  require(streamed || !train || options.stream_cache == 0,
          "[data] stream_cache needs data at a URL, received {}",
          path);
  const auto& format = format_of(kind);
  if (train) refuse_idle_options(options, format);
  auto dataset = format.open({options, path, train, named, class_names});
  if (!dataset && needed) refuse_missing_part(format, train, path);
  if (dataset) require_as_announced(*dataset, options, train, class_names);
  return dataset;
}

}  // namespace

std::string kind_of(const fs::path& path) {
  const auto found = std::ranges::find_if(
      registry(), [&](const DatasetFormat& format) { return format.holds(path); });
  require(found != registry().end(),
          "[data] needs a folder, a list or a pattern, received {}{}",
          path,
          fs::exists(path) ? ", which is a file of another kind"
                           : ", which does not exist (without --data, dimred uses Fashion-MNIST)");
  refuse_second_kind(path, *found);
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
  std::vector<std::pair<std::string, std::string>> choices{{"auto", "auto"}};
  for (const auto& format : registry()) choices.emplace_back(format.name, format.name);
  table.add_choice("dataset", &kind, help, choices);
}

void add_cache_options(OptionTable& table, DatasetOptions& options) {
  table
      .add("data_cache",
           &options.cache,
           "folder for indices and decompressed copies of record files (default: .dimred beside "
           "the data, else ~/.cache/dimred)")
      .of_this_machine()
      .may_change();
  table
      .add("stream_cache",
           &options.stream_cache,
           "GB of disk for streaming a URL's TFRecord files; 0: download all files first",
           between(0, 1e9))
      .role(OptionRole::stream_cache)
      .may_change();
  table
      .add("stream_fetches",
           &options.stream_fetches,
           "number of streamed files that each rank fetches at a time",
           between(1, 256))
      .role(OptionRole::stream_fetches)
      .may_change();
}

}  // namespace dimred::data
