#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace dimred::merge {

/// Reads merge.json of a merge's folder and compares its digest and those of the weights
/// (.safetensors). Throws std::runtime_error, naming the tensor, where one is missing, was added or
/// has other bytes, and for a record of other values than its digest or of a revision that kept no
/// digests. Cost: one read of the weights.
nlohmann::ordered_json verified_record(const std::filesystem::path& folder);

}  // namespace dimred::merge
