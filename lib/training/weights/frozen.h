#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/frozen_part.h"
#include "training/setup.h"

// Parameters that do not train, and the running statistics of BatchNorm layers of which none does:
// the same for a whole run and for what builds on it. They are not in M, nor in any snapshot or
// state, but once in the run folder; what those carry is their digest.
namespace dimred::training {

using checkpoints::frozen_file_name;

/// Records the digest of the present frozen part in the setup.
void record_frozen_digest(Model& model);

/// The table that snapshots and states carry: layout::to_json with the names and shapes of buffers
/// and counters, and the frozen part's digest where there is one.
std::string carried_layout(const Model& model);

/// Throws std::invalid_argument unless weights that carry this table were trained with the setup's
/// frozen part.
void require_same_frozen(const Model& model,
                         const std::string& layout_json,
                         const std::string& source);

/// Throws std::invalid_argument where the snapshot with this table has no values of parameters that
/// were frozen when it was recorded, and that `is_needed` says are needed of it.
void refuse_missing(const std::string& layout_json,
                    const std::string& source,
                    const std::function<bool(const std::string& name)>& is_needed);

/// Rank 0 writes frozen.safetensors into the run folder, if anything is frozen. In the folder of a
/// run that has states it must be there, and the same: throws std::invalid_argument otherwise.
void keep_frozen(const Setup& setup, const std::filesystem::path& folder);

/// The frozen part of the run that `near` is or lies in; else of `near` itself, a weight file of
/// the whole network. Rank 0 reads, all get it. No-op if nothing is frozen. Throws
/// std::invalid_argument when there is none, or it is of another network.
void load_frozen(Setup& setup, const std::filesystem::path& near);

}  // namespace dimred::training
