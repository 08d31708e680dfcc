#pragma once

#include <filesystem>

#include "checkpoints/checkpoint.h"

namespace dimred::checkpoints {

/// Reads where the tensors of a folder lie whose files model_world_size_N_rank_R.pt hold DTensors,
/// as FSDP's SHARDED_STATE_DICT saved by each rank has them: cut as torch.chunk cuts (Shard), or
/// whole in each rank (Replicate), whose first copy is taken. All checksums are compared. A single
/// rank may have plain tensors. Throws std::invalid_argument("[FSDP] ...") for a rank whose file is
/// not there, another world size beside it, a tensor that is no DTensor, and a tensor that two
/// ranks describe in two ways; std::runtime_error for a damaged file. Cost: each file is read once.
Checkpoint read_fsdp_ranks(const std::filesystem::path& folder);

}  // namespace dimred::checkpoints
