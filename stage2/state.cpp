#include "stage2/state.h"

#include <cmath>

#include "stage2/projection.h"
#include "support/errors.h"
#include "training/state.h"
#include "training/whole.h"

namespace dimred::stage2 {
namespace {

constexpr auto average_key = "average";
constexpr auto momentum_key = "residual_momentum";

/// P w over all ranks, which tells one matrix from another.
std::vector<double> coordinates(const training::Setup& setup, const Subspace& subspace) {
  auto values = project(subspace, own_columns(setup.flat.weights, setup.columns));
  setup.communicator->all_reduce(values);
  return values;
}

/// Another matrix puts the same weights elsewhere; a sum in another order moves them by rounding.
void require_same_basis(const nlohmann::json& scalars,
                        const training::Setup& setup,
                        const Subspace& subspace) {
  const auto saved = scalars.at("coordinates").get<std::vector<double>>();
  const auto now = coordinates(setup, subspace);
  require(saved.size() == now.size(),
          "[stage2::state] the state was made with {} components, n_component now is {}",
          saved.size(),
          now.size());
  const double tolerance = 1e-5 * setup.flat.weights.norm().item<double>();
  bool same = true;
  for (std::size_t i = 0; same && i < now.size(); ++i)
    same = std::abs(saved[i] - now[i]) <= tolerance;
  require(same,
          "[stage2::state] the state belongs to another projection matrix; restore that one, or "
          "choose another --output");
}

std::vector<float> gathered(const training::Setup& setup, const torch::Tensor& own) {
  return training::whole_vector(setup, all_gather(*setup.communicator, own, setup.columns));
}

void restore(const training::Setup& setup,
             const checkpoints::State& saved,
             const std::string& name,
             torch::Tensor own) {
  const auto found = saved.vectors.find(name);
  require(found != saved.vectors.end(),
          "[stage2::state] the state is of another method: it has no {}; choose another --output",
          name);
  auto whole = torch::zeros_like(setup.flat.weights);
  models::from_file(setup.flat.layout, found->second, whole);
  own.copy_(own_columns(whole, setup.columns));
}

}  // namespace

checkpoints::State to_checkpoint(const training::Setup& setup,
                                 const TrainState& state,
                                 const Descent& descent) {
  auto saved = training::network_state(setup, "stage2", state.position);
  saved.scalars["curve"] = training::to_json(state.curve);
  saved.scalars["steps"] = training::to_json(state.steps);
  saved.scalars["length"] = descent.length;
  saved.scalars["not_finite"] = state.not_finite;
  saved.scalars["method"] = descent.method.numbers();
  saved.scalars["coordinates"] = coordinates(setup, descent.space.subspace());
  saved.vectors[momentum_key] = gathered(setup, descent.space.momentum());
  if (state.average.values.defined()) {
    saved.scalars["average_count"] = state.average.count;
    saved.vectors[average_key] = gathered(setup, state.average.values);
  }
  return saved;
}

void from_checkpoint(const checkpoints::State& saved,
                     training::Setup& setup,
                     TrainState& state,
                     const Descent& descent) {
  state.position = training::restore_network(saved, "stage2", setup);
  const auto& scalars = saved.scalars;
  state.curve = training::prefix_from_json(scalars.at("curve"));
  state.steps = training::prefix_from_json(scalars.at("steps"));
  if (scalars.contains("not_finite"))
    state.not_finite = checkpoints::count_of(scalars, "not_finite");
  const double length = scalars.at("length");
  require(!descent.has_length || length == descent.length,
          "[stage2::state] the rates of this run fall over {} epochs or passes, received {}; "
          "choose another --output",
          length,
          descent.length);
  require_same_basis(scalars, setup, descent.space.subspace());
  descent.method.restore(scalars.at("method").get<method::Method::Numbers>());
  restore(setup, saved, momentum_key, descent.space.momentum());
  if (state.average.values.defined()) {
    restore(setup, saved, average_key, state.average.values);
    state.average.count = checkpoints::count_of(scalars, "average_count");
  }
}

}  // namespace dimred::stage2
