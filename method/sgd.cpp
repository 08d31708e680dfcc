#include "method/sgd.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "support/errors.h"

namespace dimred::method {
namespace {

/// SGD in all weights is the residual part alone, with the rates of the method.
MethodOptions with_residual_rates(MethodOptions options) {
  if (options.kind != MethodKind::sgd) return options;
  options.residual.gamma = options.rates.momentum;
  options.residual.alpha = options.rates.learning_rate;
  options.alpha_schedule = options.schedule;
  return options;
}

}  // namespace

Sgd::Sgd(MethodOptions options, std::span<const Eigen::Index> block_sizes)
    : options_(with_residual_rates(std::move(options))),
      rate_factor_(options_.schedule, options_.first_drop),
      alpha_factor_(options_.alpha_schedule, options_.first_drop),
      velocity_(Eigen::VectorXd::Zero(std::reduce(block_sizes.begin(), block_sizes.end()))) {
  require(options_.kind != MethodKind::sgd || block_sizes.empty(),
          "[method] sgd uses no subspace, received a basis of {} rows",
          velocity_.size());
}

StepReport Sgd::descend(SubspaceSpace& space, double progress) {
  const double rate = options_.rates.learning_rate * rate_factor_(progress);
  const double alpha = options_.residual.alpha * alpha_factor_(progress);
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
