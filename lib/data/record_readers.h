#pragma once

#include <memory>

#include "data/record_dataset.h"

namespace dimred::data {

/// TFRecord shards of tf.Example with image/encoded (JPEG or PNG) and image/class/label; see
/// docs/reference/data.md. `.gz` files (by content) are decompressed into the cache folder once.
/// Both checksums of a record are verified when the index is made and again when this process first
/// reads it; later reads are views of the page cache.
std::unique_ptr<Dataset> open_tfrecord(const RecordOptions& options);

/// Base64 part files: a line is Base64 of a JPEG or PNG, a tab and the label, or the label first;
/// each file's first line says which, and every line must agree. `files` may be one file_list.txt
/// instead, whose lines name the part files (relative to its folder).
std::unique_ptr<Dataset> open_base64(const RecordOptions& options);

/// Base64 part files, for the index and the fuzzers.
extern const RecordFormat base64_format;

}  // namespace dimred::data
