#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoints/background_writer.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "engine/setup.h"
#include "run/position.h"
#include "run/record.h"
#include "support/console.h"

namespace dimred::run {

/// The part of a resume state that both stages share: the network's vectors in file order, the
/// layout, the stage's name and the position. All ranks call it; the weights are on rank 0.
checkpoints::State network_state(const engine::Setup& setup,
                                 const std::string& stage,
                                 const Position& position,
                                 const RunRecord& record);

/// Throws std::runtime_error on every rank when one has other replicated weights than rank 0: they
/// would go apart unseen. Cost: a read of the weights, on the host.
void require_equal_weights(const engine::Setup& setup, const Position& position);

/// Puts it back; returns the position. Throws std::invalid_argument when the state belongs to
/// another stage, model, data (classes, samples, or their digest, where the state records them) or
/// batch size than the setup.
Position restore_network(const checkpoints::State& saved,
                         const std::string& stage,
                         engine::Setup& setup);

/// The network's present weights and buffers, on their way to the host beside what the device does
/// next. Call once, on any thread: waits for them; throws std::runtime_error unless all are finite.
using PendingSnapshot = std::function<checkpoints::Snapshot()>;

/// Its epoch is the one under way, or the last that was finished, counted from 1. All ranks call
/// it; empty on others than rank 0. Cost: a copy of the weights on their device, and then one on
/// the host; where weights are sharded, what full_vector() costs, at once.
PendingSnapshot start_snapshot(const engine::Setup& setup,
                               const Position& position,
                               const RunRecord& record);

/// For a state's scalars and the manifest.
nlohmann::json to_json(const engine::LossScaleState& scale);

/// Waits until rank 0's writer has done all that it was given; what failed there is every rank's
/// failure.
/// All ranks call it.
void wait_for(checkpoints::BackgroundWriter& writer, const engine::Setup& setup);

/// The newest valid state of a store, read by rank 0 and given to all; nullopt when it has none.
/// Damaged ones are named on the console; throws std::runtime_error, on every rank, when all are.
std::optional<checkpoints::State> newest_state(const checkpoints::StateStore& states,
                                               const engine::Setup& setup,
                                               Console& console);

/// State of a run folder (its newest valid one) or a state folder. Throws std::invalid_argument
/// when there is none, std::runtime_error when the newest is damaged.
checkpoints::State read_run_state(const std::filesystem::path& path,
                                  const checkpoints::VectorChoice& choose = nullptr);

/// `read` on rank 0, its state on every rank; an error of it, too. From vectors of the layout's
/// whole size each rank keeps its own part. Cost: a broadcast of the state's vectors.
std::optional<checkpoints::State> shared_state(
    const engine::Setup& setup, const std::function<std::optional<checkpoints::State>()>& read);

}  // namespace dimred::run
