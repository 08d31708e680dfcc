#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/stored_tensor.h"

// Parameters that did not train, and running statistics of layers of which none did: they are in no
// snapshot, but once in a file at or above it. Snapshots carry the digest of that part.
namespace dimred::checkpoints {

inline constexpr auto frozen_file_name = "frozen.safetensors";

/// The nearest frozen.safetensors at or up to two folders above `path`; empty when there is none.
std::filesystem::path frozen_file_of(const std::filesystem::path& path);

struct FrozenPart {
  std::filesystem::path file;
  std::vector<StoredTensor> tensors;  // float32, in the order of the digest
  std::string digest;                 // as the snapshot says, not yet compared

  /// Reads the part once, in blocks. Throws std::runtime_error where it has another digest.
  void verify() const;
};

/// Returns the part that the snapshot with this table lacks; nothing if all of it trained. Throws
/// std::invalid_argument where the file is missing or lacks a tensor of the snapshot's list.
std::optional<FrozenPart> frozen_part_of(const std::filesystem::path& snapshot,
                                         const nlohmann::json& table);

}  // namespace dimred::checkpoints
