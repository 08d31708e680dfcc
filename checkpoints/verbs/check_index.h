#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"

namespace dimred::verbs {

/// An index of shards with all that is wrong about it, where open_checkpoint() names the first.
struct CheckedIndex {
  checkpoints::Checkpoint checkpoint;  // the tensors of the shards that can be read
  std::vector<std::string> faults;     // a line each
};

/// Compares an index with the shards beside it. Faults: an index that is no JSON or lists nothing;
/// shards that are missing, cannot be read, or are called as shards of it and not listed; a tensor
/// that a shard lacks, that no line lists, or that two shards have; a metadata.total_size other
/// than the bytes of all tensors. Throws std::invalid_argument where the index is missing. Cost:
/// the headers of all shards.
CheckedIndex check_index(const std::filesystem::path& index);

}  // namespace dimred::verbs
