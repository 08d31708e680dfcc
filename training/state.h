#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "training/epoch.h"
#include "training/setup.h"

namespace dimred::training {

/// The part of a resume state that both stages share: the network's vectors in file order, the
/// layout, the stage's name and the position.
checkpoints::State network_state(const Setup& setup,
                                 const std::string& stage,
                                 const Position& position);

/// Puts it back; returns the position. Throws std::invalid_argument when the state belongs to
/// another stage, model, data size or batch size than the setup.
Position restore_network(const checkpoints::State& saved, const std::string& stage, Setup& setup);

/// The network's weights and buffers as a snapshot, on the host.
checkpoints::Snapshot to_snapshot(const Setup& setup, const Position& position);

/// The newest valid state of a store, if any; damaged ones are named on the console.
std::optional<checkpoints::State> newest_state(const checkpoints::StateStore& states,
                                               Console& console);

/// State of a run folder (its newest valid one) or a state folder. Throws std::invalid_argument
/// when there is none.
checkpoints::State read_run_state(const std::filesystem::path& path);

}  // namespace dimred::training
