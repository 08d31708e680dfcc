#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoints/stored_tensor.h"

namespace dimred::checkpoints {

/// Protobuf Checkpoint { repeated Value { tag = 1; TensorProto tensor = 2 } value = 1 } with
/// TensorProto { repeated int64 dims = 1; tensor_type = 2; tensor_content = 3 }; a large tensor
/// comes in several values of one tag; maybe "crc_num" and a CRC-32 of 10 bytes at the end. Source:
/// mindspore/ccsrc/utils/checkpoint.proto, mindspore/train/serialization.py. Returns the places of
/// its tensors, under its own names.
std::vector<StoredTensor> mindspore_table(const std::filesystem::path& path);

/// MindSpore's name for a parameter as PyTorch's.
std::string name_from_mindspore(std::string_view name);

}  // namespace dimred::checkpoints
