#include <cmath>

#include "method/update_rules.h"

namespace dimred::method {

/// Symmetric rank one: H <- H + r r' / r'y,  r = s - H y. H may become indefinite; a direction that
/// does not descend resets it. The pair is skipped when the denominator is tiny.
/// Source: Nocedal & Wright, 2nd ed., equation (6.25), and (6.26) with H for B.
std::optional<Eigen::MatrixXd> sr1(const Eigen::MatrixXd& inverse_hessian,
                                   const Eigen::VectorXd& s,
                                   const Eigen::VectorXd& y) {
  constexpr double least = 1e-8;
  const Eigen::VectorXd r = s - inverse_hessian * y;
  const double denominator = r.dot(y);
  if (!(std::abs(denominator) > least * r.norm() * y.norm())) return std::nullopt;
  return inverse_hessian + r * r.transpose() / denominator;
}

}  // namespace dimred::method
