#pragma once

#include <string>
#include <vector>

#include "engine/model.h"

// Parameters that do not train, and the running statistics of BatchNorm layers of which none does:
// the same for a whole run and for what builds on it. They are not in M, nor in any snapshot or
// state, but once in the run folder; what those carry is their digest.
namespace dimred::engine {

/// True when anything of the network is frozen.
bool is_any_frozen(const Model& model);

/// Their values in file order.
std::vector<float> frozen_values(const Model& model);

/// The digest of the frozen part with this layout and values in file order.
std::string frozen_digest(const layout::Layout& layout, const std::vector<float>& values);

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

}  // namespace dimred::engine
