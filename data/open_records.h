#pragma once

#include <optional>

#include "data/open.h"

namespace dimred::data {

/// The kind of record files that `path` holds (tfrecord, base64 or packed), or nullopt. A file, or
/// the first file of a pattern or list: by its first bytes. A folder: file_list.txt, there or in
/// train/, is Base64; NAME.packed is packed; a file that begins as a TFRecord file is TFRecord.
std::optional<DatasetKind> record_kind(const std::filesystem::path& path);

/// Opens the training or the test set of one of these kinds. TFRecord: find_shards. Base64:
/// file_list.txt, there or in train/, and in test/, val/ or validation/. Packed: train.packed, and
/// test.packed, val.packed or validation.packed; a file is the training set, and the test set where
/// `named` says that the path is the test set's own. nullptr where the path has no such part.
std::unique_ptr<Dataset> open_records(DatasetKind kind,
                                      const std::filesystem::path& path,
                                      const DatasetOptions& options,
                                      bool train,
                                      bool named,
                                      const std::vector<std::string>& class_names);

}  // namespace dimred::data
