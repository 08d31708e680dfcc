#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace dimred::checkpoints {

/// How the name of a JSON file ends that says in which shard each tensor lies.
constexpr std::string_view index_ending = ".index.json";

/// Whether the name of a file is that of other programs' weights.
bool is_weight_name(const std::filesystem::path& file);

/// Returns the type of what lies at a path, links followed; not_found also for a link that leads
/// back to itself, and for a name too long for a file.
std::filesystem::file_type type_at(const std::filesystem::path& path);

/// The last part of a path without an extension of weights.
std::string bare_name(const std::filesystem::path& path);

}  // namespace dimred::checkpoints
