#include "stage2/step.h"

#include <cmath>

#include "stage2/projection.h"

namespace dimred::stage2 {
namespace {

std::span<const double> view(const Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

/// What one all-reduce of k + 2 numbers brings together.
struct Projected {
  Eigen::VectorXd g_k;           // P g [k]
  double gradient_momentum = 0;  // g'm with the momentum of before the step
  double gradient_square = 0;    // |g|^2
};

Projected project_all(const torch::Tensor& basis,
                      const torch::Tensor& g,
                      const torch::Tensor& m,
                      distributed::Communicator& communicator) {
  auto numbers = project(basis, g);
  numbers.push_back(inner_product(g, m));
  numbers.push_back(inner_product(g, g));
  communicator.all_reduce(numbers);
  const auto k = basis.size(0);
  return {Eigen::Map<const Eigen::VectorXd>(numbers.data(), k),
          numbers[static_cast<std::size_t>(k)],
          numbers[static_cast<std::size_t>(k) + 1]};
}

}  // namespace

StepState initial_state(std::int64_t components, const torch::Tensor& own_gradient) {
  return {.inverse_hessian = Eigen::MatrixXd::Identity(components, components),
          .s = Eigen::VectorXd::Zero(components),
          .last_gradient = Eigen::VectorXd::Zero(components),
          .has_last = false,
          .residual_momentum = torch::zeros_like(own_gradient)};
}

StepReport step(const torch::Tensor& basis,
                const BatchLoss& batch,
                torch::Tensor& weights,
                StepState& state,
                const StepOptions& options,
                distributed::Communicator& communicator,
                const std::vector<layout::Shard>& shards) {
  const torch::NoGradGuard no_grad;
  const auto& residual = options.residual;
  auto& m = state.residual_momentum;
  StepReport report{.loss = batch.loss};

  const auto [g_k, gradient_momentum, gradient_square] =
      project_all(basis, batch.gradient, m, communicator);
  report.not_finite =
      !std::isfinite(gradient_square) || !std::isfinite(batch.loss) || !g_k.allFinite();
  if (report.not_finite) return report;
  report.residual_norm = std::sqrt(std::max(0.0, gradient_square - g_k.squaredNorm()));

  auto inverse_hessian = state.inverse_hessian;
  if (state.has_last) {
    const Eigen::VectorXd y = g_k - state.last_gradient;
    report.curvature = state.s.dot(y);
    report.update = update(inverse_hessian, state.s, y, options.bfgs);
  }
  const auto [d, subspace_slope, reset] = direction(inverse_hessian, g_k);
  report.reset = reset;
  report.direction_norm = d.norm();

  const auto [forward, projected] = back_project(basis, view(d), view(g_k));  // P'd, P'g_k
  m.mul_(residual.gamma).add_(batch.gradient).sub_(projected);

  // g'm of the new m without another pass: g'(g - P'g_k) = |g|^2 - |g_k|^2.
  const double momentum_slope =
      residual.gamma * gradient_momentum + gradient_square - g_k.squaredNorm();
  const double joint_slope = subspace_slope - residual.alpha * momentum_slope;
  const bool joint = residual.joint && residual.alpha > 0 && joint_slope < 0;
  report.residual_left_out = residual.joint && residual.alpha > 0 && !joint;
  report.slope = joint ? joint_slope : subspace_slope;
  const auto own_direction = joint ? forward - residual.alpha * m : forward;
  const auto u = communicator.all_gather(own_direction, shards);

  const auto start = weights.clone();
  const auto loss_at = [&](double t) {
    torch::add_out(weights, start, u, t);
    return batch.evaluate();
  };
  report.search = armijo(loss_at, batch.loss, report.slope, options.search);

  const bool accepted = report.search.outcome == SearchOutcome::accepted;
  const auto policy = options.on_failure;
  if (!accepted && (policy == OnFailure::no_step || policy == OnFailure::restore)) {
    weights.copy_(start);
    if (policy == OnFailure::no_step) state.has_last = false;  // s = 0 holds no curvature
  } else {
    report.step_size = report.search.step_size;
    if (!accepted && policy == OnFailure::next_trial) {
      report.step_size *= options.search.rho;
      torch::add_out(weights, start, u, report.step_size);
    }
    if (accepted || policy == OnFailure::next_trial) state.s = report.step_size * d;
    state.inverse_hessian = inverse_hessian;
    state.last_gradient = g_k;
    state.has_last = true;
  }
  if (!residual.joint && residual.alpha > 0)
    weights.sub_(communicator.all_gather(m, shards), residual.alpha);
  return report;
}

}  // namespace dimred::stage2
