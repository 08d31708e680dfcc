#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "checkpoints/weights_file.h"

// The readers behind read_weights(), one a file, and what they share.
namespace dimred::checkpoints {

enum class ElementType { f16, bf16, f32, f64, boolean, u8, i8, i16, i32, i64 };

std::int64_t bytes_of(ElementType type);
bool is_floating(ElementType type);

/// Little-endian elements, appended to the tensor's values or integers. Needs whole elements.
void append_elements(ElementType type, std::span<const std::byte> bytes, WeightTensor& tensor);

/// torch.save's zip archive of a pickle and its storages: a state dict {name: tensor}, or a
/// dictionary that has one as "state_dict", "model_state_dict" or "model".
WeightsFile read_pytorch_weights(const std::filesystem::path& path);

/// Protobuf Checkpoint { repeated Value { tag = 1; TensorProto tensor = 2 } value = 1 } with
/// TensorProto { repeated int64 dims = 1; tensor_type = 2; tensor_content = 3 }; a large tensor
/// comes in several values of one tag; maybe "crc_num" and a CRC-32 of 10 bytes at the end. Source:
/// mindspore/ccsrc/utils/checkpoint.proto, mindspore/train/serialization.py.
WeightsFile read_mindspore_weights(const std::filesystem::path& path);

/// MindSpore's name for a parameter as PyTorch's.
std::string name_from_mindspore(std::string_view name);

}  // namespace dimred::checkpoints
