#pragma once

#include <Eigen/Core>

namespace dimred::method {

/// H <- (I - r s y') H (I - r y s') + r s s',  r = 1 / s'y. Cost: O(k^2).
/// Source: Nocedal & Wright, 2nd ed., equation (6.17).
Eigen::MatrixXd bfgs(const Eigen::MatrixXd& inverse_hessian,
                     const Eigen::VectorXd& s,
                     const Eigen::VectorXd& y);

}  // namespace dimred::method
