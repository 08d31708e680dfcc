#pragma once

#include <filesystem>
#include <optional>
#include <string>

// Parts of one checkpoint, which have the names and shapes of a whole one: files of ranks, of
// tensor and pipeline parallelism, and shards. Only a file's name says so, never a folder's.
namespace dimred::checkpoints {

/// Returns what in a weight file's name says that the file holds a part of a checkpoint
/// ("mp_rank_01", "2-of-3"); nullopt for a whole one. A lone `consolidated.00`, `1-of-1`, or
/// `mp_rank_00_model_states` beside no other rank's is whole.
std::optional<std::string> part_in_name(const std::filesystem::path& file);

/// Throws std::invalid_argument("[scope] ...") where the path is a file with a part of a
/// checkpoint.
void require_whole(const std::filesystem::path& file, std::string_view scope);

}  // namespace dimred::checkpoints
