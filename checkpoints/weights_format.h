#pragma once

#include <filesystem>
#include <string>

#include "support/atomic_file.h"

namespace dimred::checkpoints {

enum class WeightsFormat { safetensors, pytorch, mindspore };

/// The format that a file's first bytes say. Throws std::invalid_argument for a missing file or
/// another format (with the remedy).
WeightsFormat weights_format(const std::filesystem::path& path);

/// Returns ", which is gzip; unpack the file first" of a file that a program has packed; else "".
std::string packing_remark(const InputFile& file);

/// Whether weights_format() would name one.
bool has_weights_format(const InputFile& file);

}  // namespace dimred::checkpoints
