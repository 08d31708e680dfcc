#pragma once

#include "checkpoints/state.h"
#include "optimizers/optimizer.h"
#include "training/epoch.h"
#include "training/setup.h"

namespace dimred::stage1 {

/// What stage 1 carries from step to step besides the network's own vectors.
struct TrainState {
  training::Position position;
  std::string optimizer;                         // its name
  std::map<std::string, torch::Tensor> vectors;  // the optimiser's own, [memory_size] each
  training::FilePrefix curve;                    // what of curve.csv belongs to this state
};

checkpoints::State to_checkpoint(const training::Setup& setup, const TrainState& state);

/// Puts a saved state into the setup's network and `state`. Throws std::invalid_argument when it is
/// another stage's, another model's or another optimiser's.
void from_checkpoint(const checkpoints::State& saved, training::Setup& setup, TrainState& state);

}  // namespace dimred::stage1
