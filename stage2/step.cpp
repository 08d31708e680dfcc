#include "stage2/step.h"

#include <cmath>

#include "stage2/line.h"

namespace dimred::stage2 {
namespace {

std::span<const double> view(const Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

/// What one all-reduce of components + 2 numbers brings together.
struct Projected {
  Eigen::VectorXd g_k;           // P g [components]
  double gradient_momentum = 0;  // g'm with the momentum of before the step
  double gradient_square = 0;    // |g|^2

  /// |g - P'g_k|^2, as P has orthonormal rows.
  double residual_square() const { return gradient_square - g_k.squaredNorm(); }
  bool is_finite() const { return std::isfinite(gradient_square) && g_k.allFinite(); }
};

Projected project_all(const Place& place, const torch::Tensor& g, const torch::Tensor& m) {
  auto numbers = project(place.subspace, g, {m, g});
  place.communicator.all_reduce(numbers);
  const auto k = place.subspace.components();
  return {Eigen::Map<const Eigen::VectorXd>(numbers.data(), k),
          numbers[static_cast<std::size_t>(k)],
          numbers[static_cast<std::size_t>(k) + 1]};
}

/// Each block's H learns from its own part of (s, y).
UpdateOutcome update(std::vector<Eigen::MatrixXd>& inverse_hessians,
                     const Eigen::VectorXd& s,
                     const Eigen::VectorXd& y,
                     const BfgsOptions& options) {
  auto outcome = UpdateOutcome::skipped;
  Eigen::Index row = 0;
  for (auto& h : inverse_hessians) {
    const auto k = h.rows();
    const auto one = stage2::update(h, s.segment(row, k), y.segment(row, k), options);
    if (one == UpdateOutcome::updated) outcome = one;
    row += k;
  }
  return outcome;
}

Direction direction(std::vector<Eigen::MatrixXd>& inverse_hessians, const Eigen::VectorXd& g_k) {
  Direction whole{.d = Eigen::VectorXd::Zero(g_k.size())};
  Eigen::Index row = 0;
  for (auto& h : inverse_hessians) {
    const auto k = h.rows();
    const Eigen::VectorXd gradient = g_k.segment(row, k);
    if (!gradient.isZero(0)) {  // d = 0 where there is nothing to descend
      const auto part = stage2::direction(h, gradient);
      whole.d.segment(row, k) = part.d;
      whole.slope += part.slope;
      whole.reset = whole.reset || part.reset;
    }
    row += k;
  }
  return whole;
}

/// H learns from the change of g_k on the batch that the step was taken on. B s = -t g_k, because
/// d = -H g_k.
void learn_from_the_same_batch(const Place& place,
                               const BatchLoss& batch,
                               const Eigen::VectorXd& g_k,
                               const BfgsOptions& options,
                               StepState& state,
                               StepReport& report) {
  const auto there = batch.gradient_here();
  ++report.gradients;
  auto numbers = project(place.subspace, there);
  place.communicator.all_reduce(numbers);
  const Eigen::VectorXd y = Eigen::Map<const Eigen::VectorXd>(numbers.data(), g_k.size()) - g_k;
  state.has_last = false;
  report.curvature = state.s.dot(y);
  if (!y.allFinite()) {
    report.update = UpdateOutcome::skipped;
    return;
  }
  Eigen::VectorXd damped = y;
  Eigen::Index row = 0;
  for (const auto& h : state.inverse_hessians) {
    const auto k = h.rows();
    damped.segment(row, k) = powell_damped(
        state.s.segment(row, k), y.segment(row, k), -report.step_size * g_k.segment(row, k));
    row += k;
  }
  report.update = update(state.inverse_hessians, state.s, damped, options);
  if (report.update == UpdateOutcome::updated && damped != y) report.update = UpdateOutcome::damped;
}

}  // namespace

StepState initial_state(const Place& place) {
  StepState state;
  for (const auto& block : place.subspace.blocks) {
    const auto k = block.basis.size(0);
    state.inverse_hessians.push_back(Eigen::MatrixXd::Identity(k, k));
  }
  state.s = Eigen::VectorXd::Zero(place.subspace.components());
  state.last_gradient = state.s;
  state.residual_momentum = torch::zeros_like(place.own_columns);
  return state;
}

StepReport step(const Place& place,
                const BatchLoss& batch,
                torch::Tensor& weights,
                StepState& state,
                const StepOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto& residual = options.residual;
  auto& m = state.residual_momentum;

  const auto projected = project_all(place, batch.gradient, m);
  const auto& g_k = projected.g_k;
  StepReport report{.loss = batch.loss()};  // which has come to the host before the projection
  report.not_finite = !projected.is_finite() || !std::isfinite(report.loss);
  if (report.not_finite) return report;
  report.residual_norm = std::sqrt(std::max(0.0, projected.residual_square()));

  auto inverse_hessians = state.inverse_hessians;
  if (state.has_last) {
    const Eigen::VectorXd y = g_k - state.last_gradient;
    report.curvature = state.s.dot(y);
    report.update = update(inverse_hessians, state.s, y, options.bfgs);
  }
  const auto [d, subspace_slope, reset] = direction(inverse_hessians, g_k);
  report.reset = reset;
  report.direction_norm = d.norm();

  // g'm of the new m without another pass: g'(g - P'g_k) = |g - P'g_k|^2.
  const double momentum_slope =
      residual.gamma * projected.gradient_momentum + projected.residual_square();
  const double joint_slope = subspace_slope - residual.alpha * momentum_slope;
  const bool wanted = residual.joint && residual.alpha > 0;
  const bool joint = wanted && joint_slope < 0;
  report.residual_left_out = wanted && !joint;
  report.slope = joint ? joint_slope : subspace_slope;

  auto line = descent_line(place,
                           {view(d), view(g_k)},
                           {.gradient = batch.gradient,
                            .momentum = m,
                            .gamma = residual.gamma,
                            .alpha = joint ? residual.alpha : 0},
                           weights);
  const auto loss_at = [&](double t) {
    line.move_to(t);
    return batch.evaluate();
  };
  report.search = armijo(loss_at, report.loss, report.slope, options.search);

  const bool accepted = report.search.outcome == SearchOutcome::accepted;
  const auto policy = options.on_failure;
  if (!accepted && (policy == OnFailure::no_step || policy == OnFailure::restore)) {
    line.move_to(0);
    if (policy == OnFailure::no_step) state.has_last = false;  // s = 0 holds no curvature
  } else {
    report.step_size = report.search.step_size;
    if (!accepted && policy == OnFailure::next_trial) report.step_size *= options.search.rho;
    line.move_to(report.step_size);
    const bool known = accepted || policy == OnFailure::next_trial;
    if (known) state.s = report.step_size * d;
    state.inverse_hessians = inverse_hessians;
    state.last_gradient = g_k;
    state.has_last = true;
    if (known && options.curvature == Curvature::same)
      learn_from_the_same_batch(place, batch, g_k, options.bfgs, state, report);
  }
  if (!residual.joint && residual.alpha > 0)
    weights.sub_(all_gather(place.communicator, m, place.columns), residual.alpha);
  return report;
}

}  // namespace dimred::stage2
