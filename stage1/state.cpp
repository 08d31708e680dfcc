#include "stage1/state.h"

#include "training/state.h"

namespace dimred::stage1 {

checkpoints::State to_checkpoint(const training::Setup& setup, const TrainState& state) {
  auto saved = training::network_state(setup, "stage1", state.position);
  saved.scalars["curve"] = training::to_json(state.curve);
  saved.vectors["momentum"] = models::to_file(setup.flat.layout, state.momentum);
  return saved;
}

void from_checkpoint(const checkpoints::State& saved, training::Setup& setup, TrainState& state) {
  state.position = training::restore_network(saved, "stage1", setup);
  state.curve = training::prefix_from_json(saved.scalars.at("curve"));
  models::from_file(setup.flat.layout, saved.vectors.at("momentum"), state.momentum);
}

}  // namespace dimred::stage1
