#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

// Files of ranks that together are one set of weights: FSDP's model_world_size_N_rank_R.pt, and
// those that DeepSpeed's ZeRO writes into a folder global_stepN. Names alone say so.
namespace dimred::checkpoints {

enum class RankKind {
  fsdp,            // model_world_size_N_rank_R.pt
  zero_model,      // zero_pp_rank_R_mp_rank_MM_model_states.pt, of stage 3
  zero_optimizer,  // [bf16_]zero_pp_rank_R_mp_rank_MM_optim_states.pt
};

struct RankFile {
  RankKind kind = RankKind::fsdp;
  std::int64_t rank = 0;
  std::int64_t world_size = 0;      // of FSDP
  std::int64_t model_parallel = 0;  // rank of DeepSpeed's model parallelism
};

/// Returns what the name of a file says; nullopt for other names.
std::optional<RankFile> rank_file(const std::filesystem::path& file);

/// Returns the first of a folder's rank files, which stands for all of them: of the folder itself,
/// of the one folder with rank files that its file `latest` names (DeepSpeed), or of the one of its
/// folders actor and critic that has some (verl). Returns an empty path if the folder has none, or
/// several sets.
std::filesystem::path rank_weights_in(const std::filesystem::path& folder);

/// Returns the folder with the configuration and tokenizer of a rank file: huggingface/ beside it
/// (verl), the folder above whose file `latest` names the rank file's (DeepSpeed), else its own.
std::filesystem::path side_folder_of(const std::filesystem::path& rank_file);

}  // namespace dimred::checkpoints
