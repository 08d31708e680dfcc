#include "stage2/state.h"

#include <cmath>

#include "engine/weights/full_vector.h"
#include "stage2/projection.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

constexpr auto average_key = "average";
constexpr auto momentum_key = "residual_momentum";

/// P w over all ranks, which tells one matrix from another.
std::vector<double> coordinates(const engine::Setup& setup, const Subspace& subspace) {
  auto values = project(subspace, own_columns(setup.model.flat.weights, setup.model.columns));
  setup.communicator->sum(values);
  return values;
}

/// Another matrix puts the same weights elsewhere; a sum in another order moves them by rounding.
void require_same_basis(const nlohmann::json& scalars,
                        const engine::Setup& setup,
                        const Subspace& subspace) {
  const auto saved = scalars.at("coordinates").get<std::vector<double>>();
  const auto now = coordinates(setup, subspace);
  require(saved.size() == now.size(),
          "[stage2] the state was made with {} components, but n_component is now {}; give the "
          "n_component of the state, or choose another --output",
          saved.size(),
          now.size());
  const double tolerance = 1e-5 * setup.model.flat.weights.norm().item<double>();
  bool same = true;
  for (std::size_t i = 0; same && i < now.size(); ++i)
    same = std::abs(saved[i] - now[i]) <= tolerance;
  require(same,
          "[stage2] the state belongs to another projection matrix; restore that matrix, or choose "
          "another --output");
}

std::vector<float> gathered(const engine::Setup& setup, const torch::Tensor& own) {
  return engine::full_vector(setup, all_gather(*setup.communicator, own, setup.model.columns));
}

void restore_own(const engine::Setup& setup,
                 const checkpoints::State& saved,
                 const std::string& name,
                 torch::Tensor own) {
  const auto found = saved.vectors.find(name);
  require(found != saved.vectors.end(),
          "[stage2] the state comes from another method and has no {}; choose another --output",
          name);
  auto whole = torch::zeros_like(setup.model.flat.weights);
  models::from_file(setup.model.flat.layout, found->second, whole);
  own.copy_(own_columns(whole, setup.model.columns));
}

}  // namespace

void save(checkpoints::State& state, const engine::Setup& setup, const SavedDescent& descent) {
  state.scalars["length"] = descent.length;
  state.scalars["method"] = descent.method->state_dict();
  state.scalars["coordinates"] = coordinates(setup, descent.space->subspace());
  state.vectors[momentum_key] = gathered(setup, descent.space->momentum());
  if (descent.average->values.defined()) {
    state.scalars["average_count"] = descent.average->count;
    state.vectors[average_key] = gathered(setup, descent.average->values);
  }
}

void restore(const checkpoints::State& state,
             const engine::Setup& setup,
             const SavedDescent& descent) {
  const auto& scalars = state.scalars;
  const double length = scalars.at("length");
  require(!descent.depends_on_length || length == descent.length,
          "[stage2] this run's learning-rate schedule has length {} (epochs or passes), and cannot "
          "change to {}; choose another --output",
          length,
          descent.length);
  require_same_basis(scalars, setup, descent.space->subspace());
  descent.method->restore(scalars.at("method").get<method::Method::StateDict>());
  restore_own(setup, state, momentum_key, descent.space->momentum());
  if (descent.average->values.defined()) {
    restore_own(setup, state, average_key, descent.average->values);
    descent.average->count = checkpoints::count_of(scalars, "average_count");
  }
}

}  // namespace dimred::stage2
