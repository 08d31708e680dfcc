#pragma once

#include <filesystem>

#include "checkpoints/weights_file.h"

namespace dimred::checkpoints {

/// torch.save's zip archive of a pickle and its storages: a state dict {name: tensor}, or a
/// dictionary that has one as "state_dict", "model_state_dict" or "model". Python reads it
/// (checkpoints/read_pickle.h), through a nameless file in $TMPDIR, else /tmp, of the tensors'
/// size.
WeightsFile read_pytorch_weights(const std::filesystem::path& path);

}  // namespace dimred::checkpoints
