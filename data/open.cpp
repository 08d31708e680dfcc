#include "data/open.h"

#include <array>
#include <optional>

#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_files.h"
#include "data/mock.h"
#include "data/open_records.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr auto place = "data::open";

bool holds_idx(const fs::path& folder) {
  return fs::exists(folder / "train-images-idx3-ubyte") ||
         fs::exists(folder / "train-images-idx3-ubyte.gz");
}

bool is_pattern(const fs::path& path) {
  return path.string().find_first_of("*?[") != std::string::npos && !fs::exists(path);
}

using Names = std::vector<const char*>;

/// The first of `names` that is a folder in `path`.
std::optional<fs::path> folder_in(const fs::path& path, const Names& names) {
  for (const auto* name : names) {
    if (fs::is_directory(path / name)) return path / name;
  }
  return std::nullopt;
}

std::optional<fs::path> split_folder(const fs::path& path, bool train) {
  return train ? folder_in(path, {"train"}) : folder_in(path, {"test", "val", "validation"});
}

std::optional<fs::path> list_file(const fs::path& path, bool train) {
  if (fs::is_regular_file(path)) return train ? std::optional(path) : std::nullopt;
  const auto names = train ? Names{"train.txt", "train/label.txt", "label.txt"}
                           : Names{"test.txt", "val.txt", "test/label.txt", "val/label.txt"};
  for (const auto* name : names) {
    if (fs::is_regular_file(path / name)) return path / name;
  }
  return std::nullopt;
}

std::string split_name(bool train) { return train ? "training" : "test"; }

fs::path found_split(const std::optional<fs::path>& found,
                     const fs::path& path,
                     bool train,
                     const char* needed) {
  require(found.has_value(),
          place,
          "needs ",
          needed,
          " for the ",
          split_name(train),
          " set, received ",
          utf8_text(path.string()),
          train ? "" : ", which has none; test_data can name it");
  return *found;
}

std::unique_ptr<Dataset> open_folder(const fs::path& path,
                                     bool train,
                                     bool named,
                                     const std::vector<std::string>& class_names) {
  if (is_pattern(path)) {
    require(
        train || named, place, "needs test_data when data is a pattern, received ", path.string());
    return open_image_pattern(path.string(), class_names);
  }
  if (const auto folder = split_folder(path, train)) return open_image_folder(*folder, class_names);
  const bool whole = train || named;  // class folders alone
  return open_image_folder(
      whole ? path : found_split({}, path, train, "test/, val/ or validation/"), class_names);
}

std::unique_ptr<Dataset> open_list(const fs::path& path,
                                   bool train,
                                   bool named,
                                   const std::vector<std::string>& class_names) {
  if (named && fs::is_regular_file(path)) return open_image_list(path, class_names);
  auto found = list_file(path, train);
  if (!found && named) found = list_file(path, /*train=*/true);
  return open_image_list(
      found_split(found, path, train, train ? "train.txt or label.txt" : "test.txt or val.txt"),
      class_names);
}

std::unique_ptr<Dataset> make_mock(const DatasetOptions& options, bool train) {
  const auto& shape = options.mock_shape;
  require(shape.size() == 3,
          place,
          "mock_shape needs channels, height, width, received ",
          shape.size(),
          " numbers");
  constexpr std::int64_t train_size = 50'000, test_size = 10'000, classes = 10;
  return open_mock(train ? train_size : test_size,
                   {static_cast<std::int64_t>(shape[0]),
                    static_cast<std::int64_t>(shape[1]),
                    static_cast<std::int64_t>(shape[2])},
                   options.num_classes > 0 ? options.num_classes : classes);
}

std::unique_ptr<Dataset> open_kind(DatasetKind kind,
                                   const fs::path& path,
                                   const DatasetOptions& options,
                                   bool train,
                                   const std::vector<std::string>& class_names) {
  const bool named = !train && !options.test_path.empty();
  switch (kind) {
    case DatasetKind::idx:
      return open_idx(path, train);
    case DatasetKind::folder:
      return open_folder(path, train, named, class_names);
    case DatasetKind::list:
      return open_list(path, train, named, class_names);
    case DatasetKind::cifar:
      return open_cifar(path, train);
    case DatasetKind::mock:
      return make_mock(options, train);
    case DatasetKind::tfrecord:
    case DatasetKind::base64:
    case DatasetKind::packed:
      return open_records(kind, path, options, train, named, class_names);
    case DatasetKind::automatic:
      break;
  }
  throw std::invalid_argument(concat('[', place, "] cannot open the kind ", to_text(kind)));
}

}  // namespace

std::string to_text(DatasetKind kind) {
  constexpr std::array<const char*, 9> texts{
      "auto", "idx", "folder", "list", "cifar", "tfrecord", "base64", "packed", "mock"};
  return texts[static_cast<std::size_t>(kind)];
}

DatasetKind kind_of(const fs::path& path) {
  if (const auto kind = record_kind(path)) return *kind;
  if (is_pattern(path)) return DatasetKind::folder;
  if (fs::is_regular_file(path)) return DatasetKind::list;
  require(fs::is_directory(path),
          place,
          "needs a folder, a list or a pattern, received ",
          utf8_text(path.string()),
          ", which does not exist");
  if (holds_idx(path)) return DatasetKind::idx;
  if (is_cifar(path)) return DatasetKind::cifar;
  if (list_file(path, /*train=*/true)) return DatasetKind::list;
  return DatasetKind::folder;
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      bool train,
                                      const std::vector<std::string>& class_names) {
  auto path = train || options.test_path.empty() ? options.path : options.test_path;
  auto kind = options.kind;
  if (path.empty() && kind != DatasetKind::mock) {
    path = default_fashion_mnist_folder();
    if (kind == DatasetKind::automatic) kind = DatasetKind::idx;
  }
  if (kind == DatasetKind::automatic) kind = kind_of(path);
  auto dataset = open_kind(kind, path, options, train, class_names);
  const auto classes = dataset->classes();
  require(options.num_classes == 0 || options.num_classes == classes,
          place,
          "num_classes needs what the ",
          split_name(train),
          " set has (",
          classes,
          ", in ",
          dataset->description(),
          "), received ",
          options.num_classes);
  require(class_names.empty() || class_names == dataset->class_names(),
          place,
          "needs the training set's ",
          class_names.size(),
          " classes in the test set, received the ",
          classes,
          " of ",
          dataset->description());
  return dataset;
}

}  // namespace dimred::data
