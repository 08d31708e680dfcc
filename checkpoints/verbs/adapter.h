#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/lora_config.h"
#include "checkpoints/lora_fold.h"
#include "checkpoints/low_rank_update.h"
#include "support/file_state.h"

// A folder of PEFT's with a LoRA adapter, and what it does to the weights of a checkpoint.
namespace dimred::verbs {

struct Adapter {
  checkpoints::Checkpoint checkpoint;
  FileGuard guard;  // of adapter_config.json
  checkpoints::LoraConfig config;
};

/// Opens a folder with adapter_config.json and adapter_model.safetensors or .bin. Throws as
/// read_lora_config() and open_checkpoint() do, and std::invalid_argument for another folder.
Adapter open_adapter(const std::filesystem::path& folder);

/// Reads what is added to a tensor: its updates, and a bias of B as one of rank 1. Memory: 8 bytes
/// for each value of the factors, and those of one more.
std::vector<checkpoints::LowRankUpdate> read_updates(const Adapter& adapter,
                                                     const checkpoints::LoraFold& fold,
                                                     const checkpoints::TensorReader& reader);

}  // namespace dimred::verbs
