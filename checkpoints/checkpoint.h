#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "checkpoints/tensor_table.h"
#include "support/file_state.h"

namespace dimred::checkpoints {

/// How the name of a JSON file ends that says in which shard each tensor lies.
constexpr std::string_view index_ending = ".index.json";

/// The weights of one model and where they lie.
struct Checkpoint {
  std::vector<std::filesystem::path> files;
  std::vector<std::vector<StoredTensor>> tensors;  // of each file, in its order; of a distributed
                                                   // checkpoint all with the first
  FileGuard guard;  // of the files and an index, before the first byte of each was read
};

/// The file of all weights that lies beside an index of shards, else the index: what is saved in
/// one file leaves the index of an earlier save, and transformers reads the file.
std::filesystem::path whole_or_index(const std::filesystem::path& index);

/// The file or index of the weights in a checkpoint's own folder, as Hugging Face, PEFT and
/// torch.distributed.checkpoint (.metadata) name them; empty: the folder has none.
std::filesystem::path weights_in(const std::filesystem::path& folder);

/// Throws std::invalid_argument("[scope] ...") where folders within the folder, which has weights
/// of its own, have weights, too, as a Trainer's folder does: either could be meant.
void require_one_meaning(const std::filesystem::path& folder, std::string_view scope);

/// Whether a file is the .metadata of torch.distributed.checkpoint.
bool is_distributed(const std::filesystem::path& path);

/// Reads the tensor table of a checkpoint: of a weight file (read_tensor_table); of shards that an
/// index names, {"weight_map": {tensor: file beside the index}}; or of a .metadata, whose records
/// are read once to compare their checksums. Throws as read_tensor_table does,
/// std::invalid_argument for a shard that is not there, and std::runtime_error for a shard whose
/// tensors are not those that the index names.
Checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace dimred::checkpoints
