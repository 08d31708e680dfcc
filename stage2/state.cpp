#include "stage2/state.h"

#include <cmath>

#include "stage2/projection.h"
#include "support/errors.h"
#include "training/state.h"
#include "training/whole.h"

namespace dimred::stage2 {
namespace {

constexpr auto place = "stage2::state";
constexpr auto average_key = "average";

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
          place,
          "the state was made with ",
          saved.size(),
          " components, n_component now is ",
          now.size());
  const double tolerance = 1e-5 * setup.flat.weights.norm().item<double>();
  bool same = true;
  for (std::size_t i = 0; same && i < now.size(); ++i)
    same = std::abs(saved[i] - now[i]) <= tolerance;
  require(same,
          place,
          "the state belongs to another projection matrix; restore that one, or choose another "
          "--output");
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
          place,
          "the state is of another method: it has no ",
          name,
          "; choose another --output");
  auto whole = torch::zeros_like(setup.flat.weights);
  models::from_file(setup.flat.layout, found->second, whole);
  own.copy_(own_columns(whole, setup.columns));
}

}  // namespace

checkpoints::State to_checkpoint(const training::Setup& setup,
                                 const TrainState& state,
                                 Method& method,
                                 const RunIdentity& run) {
  auto saved = training::network_state(setup, "stage2", state.position);
  saved.scalars["curve"] = training::to_json(state.curve);
  saved.scalars["steps"] = training::to_json(state.steps);
  saved.scalars["length"] = run.length;
  saved.scalars["not_finite"] = state.not_finite;
  saved.scalars["method"] = method.numbers();
  saved.scalars["coordinates"] = coordinates(setup, run.subspace);
  for (const auto& [name, own] : method.vectors()) saved.vectors[name] = gathered(setup, own);
  if (state.average.values.defined()) {
    saved.scalars["average_count"] = state.average.count;
    saved.vectors[average_key] = gathered(setup, state.average.values);
  }
  return saved;
}

void from_checkpoint(const checkpoints::State& saved,
                     training::Setup& setup,
                     TrainState& state,
                     Method& method,
                     const RunIdentity& run) {
  state.position = training::restore_network(saved, "stage2", setup);
  const auto& scalars = saved.scalars;
  state.curve = training::prefix_from_json(scalars.at("curve"));
  state.steps = training::prefix_from_json(scalars.at("steps"));
  state.not_finite = scalars.value("not_finite", 0);
  const double length = scalars.at("length");
  require(!run.has_length || length == run.length,
          place,
          "the rates of this run fall over ",
          length,
          " epochs or passes, received ",
          run.length,
          "; choose another --output");
  require_same_basis(scalars, setup, run.subspace);
  method.restore_numbers(scalars.at("method"));
  for (const auto& [name, own] : method.vectors()) restore(setup, saved, name, own);
  if (state.average.values.defined()) {
    restore(setup, saved, average_key, state.average.values);
    state.average.count = scalars.at("average_count");
  }
}

}  // namespace dimred::stage2
