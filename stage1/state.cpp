#include "stage1/state.h"

#include "support/errors.h"
#include "training/state.h"
#include "training/whole.h"

namespace dimred::stage1 {
namespace {

/// These share one vector, and what it means.
bool is_sgd(const std::string& optimizer) {
  return optimizer == "momentum" || optimizer == "nesterov" || optimizer == "sgd";
}

}  // namespace

checkpoints::State to_checkpoint(const training::Setup& setup, const TrainState& state) {
  auto saved = training::network_state(setup, "stage1", state.position);
  saved.scalars["curve"] = training::to_json(state.curve);
  saved.scalars["optimizer"] = state.optimizer;
  for (const auto& [name, vector] : state.vectors)
    saved.vectors[name] = training::whole_vector(setup, vector);
  return saved;
}

void from_checkpoint(const checkpoints::State& saved, training::Setup& setup, TrainState& state) {
  state.position = training::restore_network(saved, "stage1", setup);
  // States from before there were others are SGD's.
  const auto optimizer = saved.scalars.value("optimizer", std::string("momentum"));
  require(
      optimizer == state.optimizer || (is_sgd(optimizer) && is_sgd(state.optimizer)),
      "[stage1] the state is of optimizer = {}, whose vectors are its own; received optimizer = {}",
      optimizer,
      state.optimizer);
  state.curve = training::prefix_from_json(saved.scalars.at("curve"));
  for (auto& [name, vector] : state.vectors)
    models::from_file(setup.flat.layout, saved.vectors.at(name), vector);
}

}  // namespace dimred::stage1
