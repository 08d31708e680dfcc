#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/atomic_file.h"

namespace dimred::checkpoints {

struct StoredTensor;

/// A format of files with the weights of one network. One of your own is a file with such a value
/// and its line in weights_formats.inc (docs/how-to/add_a_weights_format.md).
struct WeightsFormat {
  std::string_view name;                   // for a person
  bool (*begins)(std::string_view bytes);  // true: the file with these first 16 bytes is one
  /// Returns the tensors of a file, under its own names, with places that lie within the file.
  /// Throws std::runtime_error("[name] 'file': ...") for a damaged one, and one with a type that
  /// safetensors lacks.
  std::vector<StoredTensor> (*table)(const std::filesystem::path& path);
  /// Returns a tensor's name as PyTorch would have it; null: the names are PyTorch's.
  std::string (*pytorch_name)(std::string_view name) = nullptr;
};

#define DIMRED_WEIGHTS_FORMAT(name) extern const WeightsFormat name##_format;
#include "checkpoints/weights_formats.inc"
#undef DIMRED_WEIGHTS_FORMAT

/// The format that a file's first bytes say. Throws std::invalid_argument for a missing file or
/// another format (with the remedy).
const WeightsFormat& weights_format(const std::filesystem::path& path);

/// Returns ", which is gzip; unpack the file first" of a file that a program has packed; else "".
std::string packing_remark(const InputFile& file);

/// Whether weights_format() would name one.
bool has_weights_format(const InputFile& file);

}  // namespace dimred::checkpoints
