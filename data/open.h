#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "support/options.h"

namespace dimred::data {

enum class DatasetKind {
  automatic,  // by what the path holds; description() says what was taken
  idx,        // MNIST's four files
  folder,     // class folders, or a pattern
  list,       // lines "path label"
  cifar,      // the binary form
  tfrecord,
  base64,
  packed,  // the cache that `dimred data pack` writes
  mock,    // no files
};

struct DatasetOptions {
  DatasetKind kind = DatasetKind::automatic;
  std::filesystem::path path;       // folder, file or pattern; empty: Debian's Fashion-MNIST
  std::filesystem::path test_path;  // of the test set; empty: found at `path`
  std::int64_t num_classes = 0;     // 0: what the data says; else it must say the same
  std::int64_t labels_offset = 0;   // of tfrecord and base64: label = stored label - labels_offset
  bool skip_bad = false;            // of tfrecord and base64: bad records are left out and counted
  std::filesystem::path cache;      // folder for indices and decompressed copies; empty: chosen
  std::vector<double> mock_shape{3, 32, 32};  // channels, height, width of kind mock
};

/// Opens the training or the test set. At `path`: idx the four files; folder train/ and test/ (or
/// val/, validation/), or class folders alone (then test_path is needed); list train.txt or
/// label.txt, and test.txt or val.txt, there or in such folders; cifar its files; mock needs none
/// (50,000 and 10,000 samples). A test set is opened with the training set's `class_names`, in
/// whose order its labels are. Throws std::invalid_argument when the path holds nothing of the
/// kind, for another number of classes than num_classes or other names than class_names, and for
/// options that have no effect on the kind.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      bool train,
                                      const std::vector<std::string>& class_names = {});

/// The test set; nullptr where `path` holds none and test_path names none.
std::unique_ptr<Dataset> open_test_set_if_any(const DatasetOptions& options,
                                              const std::vector<std::string>& class_names);

/// The kind that automatic takes at `path`. Throws std::invalid_argument when it holds none.
DatasetKind kind_of(const std::filesystem::path& path);

/// The rows stream_cache and stream_fetches, for a table with a row `data`.
void add_stream_options(OptionTable& table, double& cache, std::int64_t& fetches);

/// The kinds' names, for options.
const std::vector<std::pair<std::string, DatasetKind>>& dataset_kinds();

std::string to_text(DatasetKind kind);

}  // namespace dimred::data
