#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/format.h"
#include "options/options.h"

namespace dimred::data {

/// Opens the training or the test set. At `path`: idx the four files; folder train/ and test/ (or
/// val/, validation/), or class folders alone, which have no test set; list train.txt or
/// label.txt, and test.txt or val.txt, there or in such folders; cifar its files; tfrecord as
/// find_shards(); base64 file_list.txt, there or in train/, and in test/, val/ or validation/;
/// packed train.packed, and test.packed, val.packed or validation.packed; mock needs none (50,000
/// samples or num_samples, and 10,000). A test set is opened with the training set's `class_names`,
/// in whose order its labels are. Throws std::invalid_argument when the path holds nothing of the
/// kind, for more classes than num_classes, another number of training samples than num_samples or
/// other names than class_names, and for options that have no effect on the kind.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options,
                                      bool train,
                                      const std::vector<std::string>& class_names = {});

/// The test set; nullptr where `path` holds none and test_path names none.
std::unique_ptr<Dataset> open_test_set_if_any(const DatasetOptions& options,
                                              const std::vector<std::string>& class_names);

/// The kind that automatic takes at `path`. Throws std::invalid_argument when it holds none, and
/// when the files of idx, cifar or npy lie there beside a data set of another kind.
std::string kind_of(const std::filesystem::path& path);

/// The row `dataset`, for DatasetOptions::kind: auto, or the name of a format.
void add_kind_option(OptionTable& table, std::string& kind, const std::string& help);

/// Adds the rows data_cache, stream_cache and stream_fetches, for a table with a row `data`.
void add_cache_options(OptionTable& table, DatasetOptions& options);

}  // namespace dimred::data
