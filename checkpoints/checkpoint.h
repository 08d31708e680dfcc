#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "checkpoints/tensor_table.h"
#include "support/file_state.h"

namespace dimred::checkpoints {

/// The weights of one model and where they lie.
struct Checkpoint {
  std::vector<std::filesystem::path> files;
  std::vector<std::vector<StoredTensor>> tensors;  // of each file, in its order; of a distributed
                                                   // checkpoint all with the first
  FileGuard guard;  // of the files and an index, before the first byte of each was read
};

/// Reads the tensor table of a checkpoint, with the roles of its tensors: of a weight file
/// (read_tensor_table); of shards that an index names, {"weight_map": {tensor: file beside the
/// index}}; or of a .metadata, whose records are read once to compare their checksums. Throws as
/// read_tensor_table does, std::invalid_argument for a shard that is not there, and
/// std::runtime_error for a shard whose tensors are not those that the index names.
Checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace dimred::checkpoints
