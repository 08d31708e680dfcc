#include "stage2/state.h"

#include <cmath>

#include "stage2/projection.h"
#include "support/errors.h"
#include "training/state.h"

namespace dimred::stage2 {
namespace {

std::vector<double> numbers(const Eigen::MatrixXd& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

/// The JSON array `key` into a matrix or vector that has its size already.
template <class Matrix>
void restore(const nlohmann::json& scalars, const char* key, Matrix& target) {
  const auto values = scalars.at(key).get<std::vector<double>>();
  require(static_cast<Eigen::Index>(values.size()) == target.size(),
          "stage2::state",
          "the state's ",
          key,
          " has ",
          values.size(),
          " numbers, n_component now needs ",
          target.size());
  std::copy(values.begin(), values.end(), target.data());
}

/// P w over all ranks, which tells one matrix from another.
std::vector<double> coordinates(const training::Setup& setup, const torch::Tensor& basis) {
  auto values = project(basis, setup.own_columns(setup.flat.weights));
  setup.communicator->all_reduce(values);
  return values;
}

/// Another matrix puts the same weights elsewhere; a sum in another order moves them by rounding.
void require_same_basis(const nlohmann::json& scalars,
                        const training::Setup& setup,
                        const torch::Tensor& basis) {
  const auto saved = scalars.at("coordinates").get<std::vector<double>>();
  const auto now = coordinates(setup, basis);
  const double tolerance = 1e-5 * setup.flat.weights.norm().item<double>();
  bool same = saved.size() == now.size();
  for (std::size_t i = 0; same && i < now.size(); ++i)
    same = std::abs(saved[i] - now[i]) <= tolerance;
  require(same,
          "stage2::state",
          "the state belongs to another projection matrix; restore that one, or choose another "
          "--output");
}

}  // namespace

checkpoints::State to_checkpoint(const training::Setup& setup,
                                 const TrainState& state,
                                 const torch::Tensor& basis) {
  auto saved = training::network_state(setup, "stage2", state.position);
  const auto& step = state.step;
  saved.scalars["curve"] = training::to_json(state.curve);
  saved.scalars["steps"] = training::to_json(state.steps);
  saved.scalars["inverse_hessian"] = numbers(step.inverse_hessian);
  saved.scalars["s"] = numbers(step.s);
  saved.scalars["last_gradient"] = numbers(step.last_gradient);
  saved.scalars["has_last"] = step.has_last;
  saved.scalars["coordinates"] = coordinates(setup, basis);
  const auto m = setup.communicator->all_gather(step.residual_momentum, setup.shards);
  saved.vectors["residual_momentum"] = models::to_file(setup.flat.layout, m);
  return saved;
}

void from_checkpoint(const checkpoints::State& saved,
                     training::Setup& setup,
                     const torch::Tensor& basis,
                     TrainState& state) {
  state.position = training::restore_network(saved, "stage2", setup);
  const auto& scalars = saved.scalars;
  state.curve = training::prefix_from_json(scalars.at("curve"));
  state.steps = training::prefix_from_json(scalars.at("steps"));
  auto& step = state.step;
  restore(scalars, "inverse_hessian", step.inverse_hessian);
  restore(scalars, "s", step.s);
  restore(scalars, "last_gradient", step.last_gradient);
  step.has_last = scalars.at("has_last");
  require_same_basis(scalars, setup, basis);
  auto whole = torch::zeros_like(setup.flat.weights);
  models::from_file(setup.flat.layout, saved.vectors.at("residual_momentum"), whole);
  step.residual_momentum.copy_(setup.own_columns(whole));
}

}  // namespace dimred::stage2
