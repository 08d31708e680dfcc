#include "soup/hull_space.h"

#include <torch/utils.h>

#include <cmath>

#include "support/errors.h"

namespace dimred::soup {

Eigen::MatrixXd helmert(Eigen::Index n) {
  Eigen::MatrixXd e = Eigen::MatrixXd::Zero(n, n - 1);
  for (Eigen::Index j = 0; j + 1 < n; ++j) {
    const auto before = static_cast<double>(j + 1);
    e.col(j).head(j + 1).setConstant(1 / std::sqrt(before * (before + 1)));
    e(j + 1, j) = -before / std::sqrt(before * (before + 1));
  }
  return e;
}

HullSpace::HullSpace(training::Setup& setup,
                     const Members& members,
                     std::vector<layout::ColumnRange> blocks,
                     HeldOutLoss& objective)
    : setup_(setup),
      members_(members),
      blocks_(std::move(blocks)),
      objective_(objective),
      directions_(helmert(members.count())),
      block_sizes_(blocks_.size(), members.count() - 1),
      start_(torch::zeros_like(setup.model.flat.weights)),
      line_(torch::zeros_like(setup.model.flat.weights)),
      start_coefficients_(Coefficients::Constant(
          members.count(), std::ssize(blocks_), 1.0 / static_cast<double>(members.count()))),
      line_coefficients_(Coefficients::Zero(members.count(), std::ssize(blocks_))) {
  const torch::NoGradGuard no_grad;
  members_.combine(start_coefficients_, blocks_, setup_.model.flat.weights);
}

void HullSpace::gradient(method::Buffers /*buffers*/) {
  start_coefficients_ = coefficients();
  t_ = 0;
  line_coefficients_.setZero();
  {
    const torch::NoGradGuard no_grad;
    start_.copy_(setup_.model.flat.weights);
  }
  loss_ = objective_.gradient(line_);
}

method::Projection HullSpace::project() {
  const torch::NoGradGuard no_grad;
  const auto products = members_.products_with(line_, setup_.model.flat.gradient, blocks_);
  // What w_0 would add to all of them is orthogonal to E.
  const Eigen::MatrixXd by_block = directions_.transpose() * products;
  method::Projection projection;
  projection.g_k = by_block.reshaped();
  projection.gradient_square = projection.g_k.squaredNorm();  // there is no residual
  projection.loss = loss_;
  return projection;
}

void HullSpace::set_line(const method::Line& line) {
  check(line.alpha == 0 && !line.moves_momentum, "a hull has no residual");
  const torch::NoGradGuard no_grad;
  line_coefficients_ = as_coefficients(line.direction);
  members_.combine(line_coefficients_, blocks_, line_);
}

void HullSpace::move_to(double t) {
  if (t == t_) return;
  const torch::NoGradGuard no_grad;
  auto& weights = setup_.model.flat.weights;
  weights.copy_(start_);
  if (t != 0) weights.add_(line_, t);
  t_ = t;
}

void HullSpace::subtract_momentum(double /*alpha*/) { check(false, "a hull has no residual"); }

void HullSpace::restore() noexcept {
  const torch::NoGradGuard no_grad;
  setup_.model.flat.weights.copy_(start_);
  t_ = 0;
}

Coefficients HullSpace::coefficients() const {
  return start_coefficients_ + t_ * line_coefficients_;
}

/// E z in each block.
Coefficients HullSpace::as_coefficients(const Eigen::VectorXd& z) const {
  return directions_ *
         Eigen::Map<const Eigen::MatrixXd>(z.data(), directions_.cols(), std::ssize(blocks_));
}

}  // namespace dimred::soup
