#include "data/open.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_files.h"
#include "data/mock.h"
#include "data/open_records.h"
#include "data/paths.h"
#include "data/shard_source.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

bool holds_idx(const fs::path& folder) {
  return fs::exists(folder / "train-images-idx3-ubyte") ||
         fs::exists(folder / "train-images-idx3-ubyte.gz");
}

/// The file of a list data set, or an empty path.
fs::path list_file(const fs::path& path, bool train) {
  if (fs::is_regular_file(path)) return train ? path : fs::path();
  const auto names = train ? std::vector{"train.txt", "train/label.txt", "label.txt"}
                           : std::vector{"test.txt", "val.txt", "test/label.txt", "val/label.txt"};
  for (const auto* name : names) {
    if (fs::is_regular_file(path / name)) return path / name;
  }
  return {};
}

/// Where to look, and for what.
struct Wanted {
  fs::path path;
  bool train = true;
  bool named = false;  // the path is the test set's own: all of it is
  std::vector<std::string> class_names;
};

std::unique_ptr<Dataset> open_folder(const Wanted& wanted) {
  const bool whole = wanted.train || wanted.named;
  if (is_pattern(wanted.path))
    return whole ? open_image_pattern(wanted.path.string(), wanted.class_names) : nullptr;
  auto folder = split_folder(wanted.path, wanted.train);
  if (folder.empty() && whole) folder = wanted.path;  // class folders alone
  return folder.empty() ? nullptr : open_image_folder(folder, wanted.class_names);
}

std::unique_ptr<Dataset> open_list(const Wanted& wanted, const DatasetOptions& options) {
  auto file = list_file(wanted.path, wanted.train);
  if (file.empty() && wanted.named) file = list_file(wanted.path, /*train=*/true);
  if (file.empty()) return nullptr;
  std::optional<bool> numbers;
  if (!wanted.train) {
    const auto training = list_file(options.path, /*train=*/true);
    const bool is_list = options.kind == DatasetKind::list ||
                         (!options.path.empty() && kind_of(options.path) == DatasetKind::list);
    if (is_list && !training.empty()) numbers = list_has_numbers(training);
  }
  return open_image_list(file, wanted.class_names, numbers);
}

std::unique_ptr<Dataset> make_mock(const DatasetOptions& options, bool train) {
  const auto& shape = options.mock_shape;
  require(shape.size() == 3,
          "[data::open] mock_shape needs channels, height, width, received {} numbers",
          shape.size());
  for (const auto number : shape)
    require(number == std::floor(number),
            "[data::open] mock_shape needs whole numbers, received {}",
            number_text(number));
  constexpr std::int64_t train_size = 50'000, test_size = 10'000, classes = 10;
  return open_mock(train ? train_size : test_size,
                   {static_cast<std::int64_t>(shape[0]),
                    static_cast<std::int64_t>(shape[1]),
                    static_cast<std::int64_t>(shape[2])},
                   options.num_classes > 0 ? options.num_classes : classes);
}

/// nullptr where the path holds no such part.
std::unique_ptr<Dataset> open_kind(DatasetKind kind,
                                   const Wanted& wanted,
                                   const DatasetOptions& options) {
  switch (kind) {
    case DatasetKind::idx:
      return options.num_classes > 0 ? open_idx(wanted.path, wanted.train, options.num_classes)
                                     : open_idx(wanted.path, wanted.train);
    case DatasetKind::folder:
      return open_folder(wanted);
    case DatasetKind::list:
      return open_list(wanted, options);
    case DatasetKind::cifar:
      return open_cifar(wanted.path, wanted.train);
    case DatasetKind::mock:
      return make_mock(options, wanted.train);
    case DatasetKind::tfrecord:
    case DatasetKind::base64:
    case DatasetKind::packed:
      return open_records(
          kind, wanted.path, options, wanted.train, wanted.named, wanted.class_names);
    case DatasetKind::automatic:
      break;
  }
  throw std::invalid_argument(formatted("[data::open] cannot open the kind {}", to_text(kind)));
}

/// What a kind looks for, for messages.
const char* needed_by(DatasetKind kind, bool train) {
  switch (kind) {
    case DatasetKind::list:
      return train ? "train.txt or label.txt" : "test.txt or val.txt";
    case DatasetKind::packed:
      return train ? "train.packed" : "test.packed, val.packed or validation.packed";
    case DatasetKind::base64:
      return "file_list.txt";
    case DatasetKind::tfrecord:
      return train ? "TFRecord files" : "TFRecord files with test, val or eval in their names";
    default:
      return train ? "train/ or class folders" : "test/, val/ or validation/";
  }
}

/// Options that would have no effect are a misunderstanding.
void refuse_idle_options(const DatasetOptions& options, DatasetKind kind) {
  const bool records = kind == DatasetKind::tfrecord || kind == DatasetKind::base64;
  const bool mock = kind == DatasetKind::mock;
  const auto refuse = [&](const char* name, const char* needed, const std::string& value) {
    throw std::invalid_argument(
        formatted("[data::open] {} needs {}, received {} with data of the kind {}",
                  name,
                  needed,
                  value,
                  to_text(kind)));
  };
  if (options.labels_offset != 0 && !records)
    refuse("labels_offset", "TFRecord or Base64 files", std::to_string(options.labels_offset));
  if (!options.cache.empty() && !records)
    refuse("data_cache", "TFRecord or Base64 files", path_text(options.cache));
  if (options.mock_shape != DatasetOptions{}.mock_shape && !mock)
    refuse("mock_shape", "dataset = mock", formatted("{} numbers", options.mock_shape.size()));
  if (!options.path.empty() && mock) refuse("data", "another dataset", path_text(options.path));
  if (!options.test_path.empty() && mock)
    refuse("test_data", "another dataset", path_text(options.test_path));
}

struct Opened {
  std::unique_ptr<Dataset> dataset;  // nullptr where `path` has no such part
  DatasetKind kind;
  fs::path path;
};

Opened open_part(const DatasetOptions& options,
                 bool train,
                 const std::vector<std::string>& class_names) {
  auto path = train || options.test_path.empty() ? options.path : options.test_path;
  auto kind = options.kind;
  if (path.empty() && kind != DatasetKind::mock) {
    path = default_fashion_mnist_folder();
    if (kind == DatasetKind::automatic) kind = DatasetKind::idx;
  }
  const bool streamed = source_of(path) != nullptr;
  if (kind == DatasetKind::automatic) kind = streamed ? DatasetKind::tfrecord : kind_of(path);
  require(!streamed || kind == DatasetKind::tfrecord,
          "[data::open] streams TFRecord files, received dataset = {}",
          to_text(kind));
  if (train) refuse_idle_options(options, kind);
  const bool named = !train && !options.test_path.empty();
  Opened opened{open_kind(kind, {path, train, named, class_names}, options), kind, path};
  if (!opened.dataset) return opened;
  const auto& dataset = *opened.dataset;
  const auto classes = dataset.classes();
  require(options.num_classes == 0 || options.num_classes == classes,
          "[data::open] num_classes needs what the {} set has ({}, in {}), received {}",
          split_text(train),
          classes,
          dataset.description(),
          options.num_classes);
  require(class_names.empty() || class_names == dataset.class_names(),
          "[data::open] needs the training set's {} classes in the test set, received the {} of {}",
          class_names.size(),
          classes,
          dataset.description());
  return opened;
}

}  // namespace

const std::vector<std::pair<std::string, DatasetKind>>& dataset_kinds() {
  static const std::vector<std::pair<std::string, DatasetKind>> kinds = {
      {"auto", DatasetKind::automatic},
      {"idx", DatasetKind::idx},
      {"folder", DatasetKind::folder},
      {"list", DatasetKind::list},
      {"cifar", DatasetKind::cifar},
      {"tfrecord", DatasetKind::tfrecord},
      {"base64", DatasetKind::base64},
      {"packed", DatasetKind::packed},
      {"mock", DatasetKind::mock}};
  return kinds;
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

std::string to_text(DatasetKind kind) {
  const auto found =
      std::ranges::find(dataset_kinds(), kind, &std::pair<std::string, DatasetKind>::second);
  check(found != dataset_kinds().end(), "a data set kind without a name");
  return found->first;
}

DatasetKind kind_of(const fs::path& path) {
  if (const auto kind = record_kind(path)) return *kind;
  if (is_pattern(path)) return DatasetKind::folder;
  if (fs::is_regular_file(path)) return DatasetKind::list;
  require(fs::is_directory(path),
          "[data::open] needs a folder, a list or a pattern, received {}{}",
          path_text(path),
          fs::exists(path) ? ", which is none of them" : ", which does not exist");
  if (holds_idx(path)) return DatasetKind::idx;
  if (is_cifar(path)) return DatasetKind::cifar;
  if (!list_file(path, /*train=*/true).empty()) return DatasetKind::list;
  return DatasetKind::folder;
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      bool train,
                                      const std::vector<std::string>& class_names) {
  auto opened = open_part(options, train, class_names);
  require(opened.dataset != nullptr,
          "[data::open] needs {} for the {} set, received {}{}",
          needed_by(opened.kind, train),
          split_text(train),
          path_text(opened.path),
          train ? "" : ", which has none; test_data can name it");
  return std::move(opened.dataset);
}

std::unique_ptr<Dataset> open_test_set_if_any(const DatasetOptions& options,
                                              const std::vector<std::string>& class_names) {
  if (!options.test_path.empty()) return open_dataset(options, /*train=*/false, class_names);
  return open_part(options, /*train=*/false, class_names).dataset;
}

}  // namespace dimred::data
