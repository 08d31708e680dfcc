#include "method/sgd.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "support/errors.h"

namespace dimred::method {

Sgd::Sgd(MethodOptions options, std::span<const Eigen::Index> block_sizes)
    : options_(std::move(options)),
      velocity_(Eigen::VectorXd::Zero(std::reduce(block_sizes.begin(), block_sizes.end()))) {
  if (options_.kind != MethodKind::sgd) return;
  require(block_sizes.empty(), "[method] sgd has no subspace, received {} rows", velocity_.size());
  options_.residual.gamma = options_.rates.momentum;
  options_.residual.alpha = options_.rates.learning_rate;
  options_.alpha_schedule = options_.schedule;
}

StepReport Sgd::descend(SubspaceSpace& space, double progress) {
  const double rate =
      options_.rates.learning_rate * factor(options_.schedule, progress, options_.first_drop);
  const double alpha =
      options_.residual.alpha * factor(options_.alpha_schedule, progress, options_.first_drop);
  StepReport report{.alpha = rate};

  space.gradient(Buffers::move);
  const auto projection = space.project();
  const auto& g_k = projection.g_k;
  report.loss = projection.loss;
  report.not_finite = !projection.is_finite();
  if (report.not_finite) return report;

  Eigen::VectorXd velocity = options_.rates.momentum * velocity_ + g_k;
  report.slope = -rate * g_k.dot(velocity);
  report.direction_norm = velocity.norm();
  report.residual_norm = std::sqrt(projection.residual_square());

  space.set_line({.direction = -rate * velocity,
                  .projected = g_k,
                  .gamma = options_.residual.gamma,
                  .alpha = alpha,
                  .moves_momentum = options_.residual.alpha > 0,
                  .keeps_start = false});
  space.move_to(1);
  velocity_ = std::move(velocity);
  report.step_size = rate;
  report.search.outcome = SearchOutcome::accepted;
  return report;
}

Method::StateDict Sgd::state_dict() const {
  return {{"velocity", {velocity_.begin(), velocity_.end()}}};
}

void Sgd::restore(const StateDict& dict) {
  const auto saved = entry_of(dict, "velocity", static_cast<std::size_t>(velocity_.size()));
  std::ranges::copy(saved, velocity_.begin());
}

}  // namespace dimred::method
