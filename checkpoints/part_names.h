#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Parts of one checkpoint, which have the names and shapes of a whole one: files of ranks, of
// tensor and pipeline parallelism, and shards. One name alone says so of a file, never of a folder.
namespace dimred::checkpoints {

/// Returns what in a weight file's name says that the file holds a part of a checkpoint
/// ("mp_rank_01", "2-of-3"); nullopt for a whole one. A lone `consolidated.00`, `1-of-1`, or
/// `mp_rank_00_model_states` beside no other rank's is whole.
std::optional<std::string> part_in_name(const std::filesystem::path& file);

/// Throws std::invalid_argument("[scope] ...") where the paths of two members differ in nothing but
/// the numbers behind words of ranks and parts: model_tp0_pp0 and model_tp1_pp0, mp_rank_00/w.pt
/// and mp_rank_01/w.pt. Folders of GPUs and processes (gpu0/w.pt and gpu1/w.pt), and of ranks that
/// hold checkpoint folders, hold whole checkpoints, and so do files of processes (worker0.pt and
/// worker1.pt) that a list names, `listed`: the returned remark says so; else it is empty.
std::string require_no_parts(const std::vector<std::filesystem::path>& members,
                             std::string_view scope,
                             bool listed = false);

/// Throws std::invalid_argument("[scope] ...") where the path is a file with a part of a
/// checkpoint.
void require_whole(const std::filesystem::path& file, std::string_view scope);

}  // namespace dimred::checkpoints
