#include "method/inverse_hessian.h"

#include <algorithm>
#include <cmath>

#include "support/errors.h"

namespace dimred::method {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

bool has_curvature(const VectorXd& s, const VectorXd& y, const CurvatureFloors& floors) {
  const double curvature = s.dot(y);
  const double floor = std::max(floors.absolute, floors.relative * s.norm() * y.norm());
  return curvature > floor && std::isfinite(curvature);
}

bool learn(MatrixXd& h,
           const VectorXd& s,
           const VectorXd& y,
           UpdateRule* rule,
           const CurvatureFloors& floors) {
  if (!has_curvature(s, y, floors)) return false;
  const auto updated = rule(h, s, y);
  if (!updated || !updated->allFinite()) return false;
  h = (*updated + updated->transpose()) / 2;
  return true;
}

/// The direction of one block, whose gradient is not zero.
Direction descend(MatrixXd& h, const VectorXd& gradient) {
  Direction result{.d = -(h * gradient)};
  result.slope = gradient.dot(result.d);
  if (result.slope < 0 && result.d.allFinite()) return result;
  h.setIdentity();
  return {.d = -gradient, .slope = -gradient.squaredNorm(), .reset = true};
}

}  // namespace

const char* name(UpdateOutcome outcome) {
  switch (outcome) {
    case UpdateOutcome::none:
      return "none";
    case UpdateOutcome::updated:
      return "updated";
    case UpdateOutcome::skipped:
      return "skipped";
    case UpdateOutcome::damped:
      return "damped";
  }
  return "unknown";
}

InverseHessian::InverseHessian(std::span<const Eigen::Index> block_sizes) {
  for (const auto k : block_sizes) blocks_.push_back(MatrixXd::Identity(k, k));
}

UpdateOutcome InverseHessian::update(const VectorXd& s,
                                     const VectorXd& y,
                                     UpdateRule* rule,
                                     const CurvatureFloors& floors) {
  bool any = false;
  Eigen::Index row = 0;
  for (auto& h : blocks_) {
    const auto k = h.rows();
    any = learn(h, s.segment(row, k), y.segment(row, k), rule, floors) || any;
    row += k;
  }
  return any ? UpdateOutcome::updated : UpdateOutcome::skipped;
}

Direction InverseHessian::direction(const VectorXd& g_k) {
  Direction whole{.d = VectorXd::Zero(g_k.size())};
  Eigen::Index row = 0;
  for (auto& h : blocks_) {
    const auto k = h.rows();
    const VectorXd gradient = g_k.segment(row, k);
    if (!gradient.isZero(0)) {  // d = 0 where there is nothing to descend
      const auto part = descend(h, gradient);
      whole.d.segment(row, k) = part.d;
      whole.slope += part.slope;
      whole.reset = whole.reset || part.reset;
    }
    row += k;
  }
  return whole;
}

VectorXd InverseHessian::damped(const VectorXd& s, const VectorXd& y, const VectorXd& b_s) const {
  VectorXd result = y;
  Eigen::Index row = 0;
  for (const auto& h : blocks_) {
    const auto k = h.rows();
    result.segment(row, k) =
        powell_damped(s.segment(row, k), y.segment(row, k), b_s.segment(row, k));
    row += k;
  }
  return result;
}

std::vector<double> InverseHessian::values() const {
  std::vector<double> all;
  for (const auto& h : blocks_) all.insert(all.end(), h.data(), h.data() + h.size());
  return all;
}

void InverseHessian::restore(std::span<const double> numbers) {
  const auto count = this->values().size();
  require(numbers.size() == count,
          "[method] the inverse Hessian needs {} numbers, received {}",
          count,
          numbers.size());
  auto next = numbers.begin();
  for (auto& h : blocks_) {
    std::copy_n(next, h.size(), h.data());
    next += h.size();
  }
}

VectorXd powell_damped(const VectorXd& s, const VectorXd& y, const VectorXd& b_s) {
  constexpr double least = 0.2;
  const double curvature = s.dot(y);
  const double model = s.dot(b_s);
  if (!(model > 0) || curvature >= least * model) return y;
  const double theta = (1 - least) * model / (model - curvature);
  return theta * y + (1 - theta) * b_s;
}

}  // namespace dimred::method
