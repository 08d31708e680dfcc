#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/bytes.h"

// tf.Example, the message in TFRecord data sets, read from protobuf's wire format:
//   Example { Features features = 1 }       Features { map<string, Feature> feature = 1 }
//   Feature { BytesList bytes_list = 1 | FloatList float_list = 2 | Int64List int64_list = 3 }
//   BytesList { repeated bytes value = 1 }  Int64List { repeated int64 value = 1, packed or not }
// Sources: tensorflow/core/example/{example,feature}.proto;
// protobuf.dev/programming-guides/encoding.
namespace dimred::data {

/// One feature; what it holds points into the message.
struct Feature {
  enum class Kind { none, bytes, floats, integers };
  Kind kind = Kind::none;
  std::int64_t count = 0;    // values
  Bytes bytes;               // the first of the byte strings
  std::int64_t integer = 0;  // the first of the integers
};

/// Calls `visit` with every feature in the order of the message; of a name that comes twice the
/// last counts, as in protobuf. Unknown fields are passed over. Allocates nothing. Throws
/// std::runtime_error("[tf.Example] rule, received ... at byte N") unless the message is whole.
void visit_features(Bytes message,
                    const std::function<void(std::string_view, const Feature&)>& visit);

/// A labelled image as TensorFlow's scripts store it.
struct ImageExample {
  Bytes encoded;            // image/encoded: one byte string
  std::string_view format;  // image/format: "jpeg", "JPEG", "png", ...; may be empty
  std::int64_t label = 0;   // image/class/label: one integer
  std::optional<std::string_view> class_name;  // image/class/text
};

/// Reads one. Throws std::runtime_error("[tf.Example] ...") for damage, or when image/encoded or
/// image/class/label is missing or of another kind.
ImageExample parse_image_example(Bytes message);

/// The message with these features, sorted by name (which is what Python writes with
/// deterministic=True).
std::string to_message(const ImageExample& example);

}  // namespace dimred::data
