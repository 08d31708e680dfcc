#pragma once

#include <filesystem>

#include "checkpoints/checkpoint.h"

namespace dimred::checkpoints {

/// Reads where the weights of a folder global_stepN of DeepSpeed's ZeRO, stages 1 to 3, lie: the
/// float32 weights of its optimizer; each is a run of its group's flat vector, cut among the ranks
/// (stages 1 and 2) or each tensor by itself (stage 3); buffers and frozen parameters in the type
/// in which they are stored; parameters that share a tensor under each name. Follows DeepSpeed's
/// own zero_to_fp32.py, which lacks the frozen parameters of stage 1; they are read here. The
/// checksums of what is read are compared. Throws std::invalid_argument("[DeepSpeed] ...") for a
/// file that is not there, model, pipeline and expert parallelism, and groups that do not have the
/// elements of their parameters; std::runtime_error for a damaged file. Cost: the weights are read
/// once.
Checkpoint read_deepspeed_ranks(const std::filesystem::path& folder);

/// Throws std::invalid_argument("[DeepSpeed] ...") for a file of model states beside which
/// DeepSpeed has written files of experts, which hold weights, too.
void require_all_experts(const std::filesystem::path& file);

}  // namespace dimred::checkpoints
