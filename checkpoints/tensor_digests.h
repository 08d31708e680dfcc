#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace dimred::checkpoints {

/// Compares the weights (.safetensors) in a folder with the digests of a record beside them, by the
/// tensors' names. Throws std::runtime_error, naming the tensor and the record, where one is
/// missing, was added or has other bytes. Cost: one read of the weights.
void require_tensor_digests(const std::filesystem::path& folder,
                            std::map<std::string, std::string> digests,
                            const std::string& record);

/// Compares the folder's tensors with the digests in its convert.json, as above; does nothing where
/// no convert.json has digests. Throws std::runtime_error also for a damaged convert.json.
void require_converted(const std::filesystem::path& folder);

}  // namespace dimred::checkpoints
