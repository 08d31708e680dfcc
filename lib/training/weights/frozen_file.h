#pragma once

#include <filesystem>

#include "checkpoints/frozen_part.h"
#include "training/setup.h"

// The file of a run's frozen part.
namespace dimred::training {

using checkpoints::frozen_file_name;

/// Rank 0 writes frozen.safetensors into the run folder, if anything is frozen. In the folder of a
/// run that has states it must be there, and the same: throws std::invalid_argument otherwise.
void keep_frozen(const Setup& setup, const std::filesystem::path& folder);

/// The frozen part of the run that `near` is or lies in; else of `near` itself, a weight file of
/// the whole network. Rank 0 reads, all get it. No-op if nothing is frozen. Throws
/// std::invalid_argument when there is none, or it is of another network.
void load_frozen(Setup& setup, const std::filesystem::path& near);

}  // namespace dimred::training
