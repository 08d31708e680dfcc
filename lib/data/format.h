#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

struct DatasetOptions {
  std::string kind = "auto";        // a format's name; auto: by what the path holds, which
                                    // description() says
  std::filesystem::path path;       // folder, file or pattern; empty: Debian's Fashion-MNIST
  std::filesystem::path test_path;  // of the test set; empty: found at `path`
  std::int64_t num_classes = 0;     // 0: what the data says; else it must have no more
  std::int64_t num_samples = 0;    // 0: what the data says; else the training set must have as many
  std::int64_t labels_offset = 0;  // of tfrecord and base64: label = stored label - labels_offset
  bool skip_bad = false;           // of tfrecord and base64: bad records are left out and counted
  std::filesystem::path cache;     // folder for indices and decompressed copies; empty: chosen
  double stream_cache = 0;         // GB; 0: a URL's files are all downloaded first
  std::int64_t stream_fetches = 4;            // files that a rank fetches at a time
  std::vector<double> mock_shape{3, 32, 32};  // channels, height, width of kind mock
};

/// Which part of a data set is to be opened, and where it is looked for.
struct DatasetRequest {
  DatasetOptions options;
  std::filesystem::path path;
  bool train = true;                     // the training set, else the test set
  bool named = false;                    // the path is the test set's own: all of it is
  std::vector<std::string> class_names;  // of a test set: those of the training set
  bool takes_all() const { return train || named; }
};

/// A kind of data set. Adding one is a file that defines formats::NAME(), and its line in
/// formats.inc.
struct DatasetFormat {
  std::string name;                                  // that of its line
  bool (*holds)(const std::filesystem::path& path);  // whether automatic takes it there
  /// nullptr where the path has no such part. Throws what is wrong with one that is there.
  std::unique_ptr<Dataset> (*open)(const DatasetRequest& request);
  const char* train_files = "train/ or class folders";  // what `open` looks for, for messages
  const char* test_files = "test/, val/ or validation/";
  // Beside files of records or arrays, automatic bears no data set of another kind.
  bool has_records = false;  // labels_offset, skip_bad and cache mean something
  bool is_array = false;     // its files are pixels alone
  /// Whether a data set of this kind lies beside such files; nullptr: where `holds` says so.
  bool (*lies_beside)(const std::filesystem::path& path) = nullptr;
};

}  // namespace dimred::data
