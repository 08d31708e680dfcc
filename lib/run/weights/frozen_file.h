#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/frozen_part.h"
#include "engine/setup.h"

// The file of a run's frozen part.
namespace dimred::run {

using checkpoints::frozen_file_name;

/// Rank 0 writes frozen.safetensors into the run folder, if anything is frozen. In the folder of a
/// run that has states it must be there, and the same: throws std::invalid_argument otherwise.
void keep_frozen(const engine::Setup& setup, const std::filesystem::path& folder);

/// The frozen part of the run that `near` is or lies in; else of `near` itself, a weight file of
/// the whole network. Rank 0 reads, all get it. No-op if nothing is frozen. Throws
/// std::invalid_argument when there is none, or it is of another network.
void load_frozen(engine::Setup& setup, const std::filesystem::path& near);

/// Throws std::invalid_argument where the snapshot with this table has no values of parameters that
/// were frozen when it was recorded, and that `is_needed` says are needed of it.
void refuse_missing(const std::string& layout_json,
                    const std::string& source,
                    const std::function<bool(const std::string& name)>& is_needed);

}  // namespace dimred::run
