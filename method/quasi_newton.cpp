#include "method/quasi_newton.h"

#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

namespace dimred::method {
namespace {

using Eigen::VectorXd;

std::vector<double> list(const VectorXd& v) { return {v.begin(), v.end()}; }

VectorXd vector(std::span<const double> numbers) {
  return Eigen::Map<const VectorXd>(numbers.data(), std::ssize(numbers));
}

}  // namespace

QuasiNewton::QuasiNewton(const MethodOptions& options, std::span<const Eigen::Index> block_sizes)
    : options_(options),
      alpha_factor_(options.alpha_schedule, options.first_drop),
      rule_(update_rule(options.update_rule)),
      state_{InverseHessian(block_sizes)} {
  state_.s = VectorXd::Zero(std::reduce(block_sizes.begin(), block_sizes.end()));
  state_.last_gradient = state_.s;
}

StepReport QuasiNewton::descend(SubspaceSpace& space, double progress) {
  const auto& residual = options_.residual;
  StepReport report{.alpha = residual.alpha * alpha_factor_(progress)};

  space.gradient(Buffers::move);
  const auto projection = space.project();
  const auto& g_k = projection.g_k;
  report.loss = projection.loss;
  report.not_finite = !projection.is_finite();
  if (report.not_finite) return report;
  report.residual_norm = std::sqrt(projection.residual_square());

  // The direction in the subspace: d = -H g_k.
  auto next = state_;
  learn_between_batches(next, g_k, report);
  const auto [d, subspace_slope, reset] = next.h.direction(g_k);
  report.reset = reset;
  report.direction_norm = d.norm();

  // The residual part. g'm of the new m costs no pass, as g'(g - P'g_k) = |g - P'g_k|^2.
  const double momentum_slope =
      residual.gamma * projection.gradient_momentum + projection.residual_square();
  const double joint_slope = subspace_slope - report.alpha * momentum_slope;
  const bool wanted = residual.joint && report.alpha > 0;
  const bool joint = wanted && joint_slope < 0;
  report.residual_left_out = wanted && !joint;
  report.slope = joint ? joint_slope : subspace_slope;

  // The line search.
  space.set_line({.direction = d,
                  .projected = g_k,
                  .gamma = residual.gamma,
                  .alpha = joint ? report.alpha : 0,
                  .moves_momentum = residual.alpha > 0});
  const auto loss_at = [&](double t) {
    space.move_to(t);
    return space.loss();
  };
  report.search = armijo(loss_at, report.loss, report.slope, options_.search);

  next.last_gradient = g_k;
  next.has_last = options_.curvature == Curvature::between;
  const bool accepted = report.search.outcome == SearchOutcome::accepted;
  if (accepted) {
    report.step_size = report.search.step_size;
    next.s = report.step_size * d;
  } else {
    report.step_size = end_failed_search(report.search, d, next);
  }
  space.move_to(report.step_size);
  const bool knows_step = accepted || options_.failed_search == FailedSearch::dldr;
  if (knows_step && options_.curvature == Curvature::same)
    learn_on_the_same_batch(space, g_k, next, report);
  if (!residual.joint && report.alpha > 0) space.subtract_momentum(report.alpha);
  static_assert(std::is_nothrow_move_assignable_v<State>);
  state_ = std::move(next);
  return report;
}

/// Returns t, and leaves of `next`, the state after an accepted step, what the published version
/// does.
double QuasiNewton::end_failed_search(const SearchResult& search,
                                      const VectorXd& d,
                                      State& next) const {
  switch (options_.failed_search) {
    case FailedSearch::no_step:
      next = state_;
      next.has_last = false;  // s = 0 holds no curvature
      return 0;
    case FailedSearch::mindspore_latest:
      next = state_;
      return 0;
    case FailedSearch::mindspore_first:
      return search.step_size;  // with the s of an earlier step
    case FailedSearch::dldr:
      break;
  }
  const double t = search.step_size * options_.search.contraction;
  next.s = t * d;
  return t;
}

void QuasiNewton::learn_between_batches(State& next,
                                        const VectorXd& g_k,
                                        StepReport& report) const {
  if (!state_.has_last) return;
  const VectorXd y = g_k - state_.last_gradient;
  report.curvature = state_.s.dot(y);
  report.update = next.h.update(state_.s, y, rule_, options_.floors);
}

/// H learns from the change of g_k on the batch that the step was taken on. B s = -t g_k, because
/// d = -H g_k.
void QuasiNewton::learn_on_the_same_batch(SubspaceSpace& space,
                                          const VectorXd& g_k,
                                          State& next,
                                          StepReport& report) const {
  space.gradient(Buffers::restore);
  ++report.gradients;
  const VectorXd y = space.project().g_k - g_k;
  report.curvature = next.s.dot(y);
  report.update = UpdateOutcome::skipped;
  if (!y.allFinite()) return;
  const VectorXd damped = next.h.damped(next.s, y, -report.step_size * g_k);
  report.update = next.h.update(next.s, damped, rule_, options_.floors);
  if (report.update == UpdateOutcome::updated && damped != y) report.update = UpdateOutcome::damped;
}

Method::StateDict QuasiNewton::state_dict() const {
  return {{"inverse_hessian", state_.h.values()},
          {"s", list(state_.s)},
          {"last_gradient", list(state_.last_gradient)},
          {"has_last", {state_.has_last ? 1.0 : 0.0}}};
}

void QuasiNewton::restore(const StateDict& dict) {
  auto restored = state_;
  const auto k = static_cast<std::size_t>(state_.s.size());
  restored.h.restore(entry_of(dict, "inverse_hessian", state_.h.values().size()));
  restored.s = vector(entry_of(dict, "s", k));
  restored.last_gradient = vector(entry_of(dict, "last_gradient", k));
  restored.has_last = entry_of(dict, "has_last", 1)[0] != 0;
  state_ = std::move(restored);
}

}  // namespace dimred::method
