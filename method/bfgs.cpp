#include "method/update_rules.h"

namespace dimred::method {

/// H <- (I - r s y') H (I - r y s') + r s s',  r = 1 / s'y. Cost: O(k^2).
/// Source: Nocedal & Wright, 2nd ed., equation (6.17).
std::optional<Eigen::MatrixXd> bfgs(const Eigen::MatrixXd& inverse_hessian,
                                    const Eigen::VectorXd& s,
                                    const Eigen::VectorXd& y) {
  // With h = H y the product form expands to  H - r (h s' + s h') + r (1 + r y'h) s s'.
  const double r = 1 / s.dot(y);
  const Eigen::VectorXd h = inverse_hessian * y;
  const double scale = r * (1 + r * y.dot(h));
  return inverse_hessian - r * (h * s.transpose() + s * h.transpose()) + scale * s * s.transpose();
}

}  // namespace dimred::method
