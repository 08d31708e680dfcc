#pragma once

#include <filesystem>

namespace dimred::checkpoints {

enum class WeightsFormat { safetensors, pytorch, mindspore };

/// The format that a file's first bytes say. Throws std::invalid_argument for a missing file or
/// another format (with the remedy).
WeightsFormat weights_format(const std::filesystem::path& path);

/// Whether weights_format() would name one.
bool has_weights_format(const std::filesystem::path& path);

}  // namespace dimred::checkpoints
