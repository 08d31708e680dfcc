#pragma once

#include "data/record_index.h"

namespace dimred::data {

/// TFRecord files of tf.Example with an image, for the index, dimred data inspect and the fuzzers.
extern const RecordFormat tfrecord_format;

}  // namespace dimred::data
