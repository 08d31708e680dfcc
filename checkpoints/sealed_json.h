#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// A folder's JSON with the digests of the files beside it and of itself, so that damage is found.
namespace dimred::checkpoints {

/// Adds "digest", that of all before it.
void add_digest(nlohmann::ordered_json& json);

/// Throws std::runtime_error naming `file`, which holds `json`, if its digest is that of others.
void require_digest(const nlohmann::ordered_json& json, const std::filesystem::path& file);

/// Adds "files", the digests of these files of `folder`, and the digest.
void seal(nlohmann::ordered_json& json,
          const std::filesystem::path& folder,
          const std::vector<std::string>& files);

/// Throws std::runtime_error naming `file`, which holds `json`, or the file beside it whose digest
/// is another.
void require_seal(const nlohmann::ordered_json& json, const std::filesystem::path& file);

}  // namespace dimred::checkpoints
