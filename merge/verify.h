#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace dimred::merge {

/// Compares the weights (.safetensors) in a merge's folder with the digests in its merge.json.
/// Throws std::runtime_error, naming the tensor, where one is missing, was added or has other
/// bytes. Cost: one read of the weights.
void verify(const std::filesystem::path& folder, const nlohmann::ordered_json& merge);

/// Reads merge.json of a merge's folder and compares its digest and those of the weights. Throws
/// std::runtime_error as verify(), and for a record of other values than its digest or of a
/// revision that kept no digests.
nlohmann::ordered_json verified_record(const std::filesystem::path& folder);

}  // namespace dimred::merge
