#pragma once

#include <filesystem>

#include "checkpoints/weights_file.h"
#include "engine/model.h"

// Weights of any origin as tensors with names.
namespace dimred::run {

/// The weights of another program (checkpoints/weights_file.h), or ours (read_own()) with the run's
/// frozen part; of several the newest, which is said. Throws std::invalid_argument when there is
/// none, std::runtime_error when it is damaged.
checkpoints::WeightsFile named_weights(const engine::Model& model,
                                       const std::filesystem::path& path);

/// All parameters, frozen ones among them, and buffers by name, as safetensors: float32, counters
/// int64.
void write_named_weights(engine::Model& model, const std::filesystem::path& file);

}  // namespace dimred::run
