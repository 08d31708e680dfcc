#pragma once

#include <Eigen/Core>
#include <string>
#include <utility>
#include <vector>

namespace dimred::method {

/// How one block's inverse Hessian learns: the new H [k x k] with H y = s, from the old one and a
/// pair s = the step taken [k], y = the change of g_k over it [k]. The caller sees to s'y > 0,
/// skips a result that is not finite, and makes it symmetric. A rule of your own is a file with
/// such a function and its line in update_rules.cpp.
using UpdateRule = Eigen::MatrixXd (*)(const Eigen::MatrixXd& inverse_hessian,
                                       const Eigen::VectorXd& s,
                                       const Eigen::VectorXd& y);

/// All of them by name; the first is the presets'.
const std::vector<std::pair<std::string, UpdateRule>>& update_rules();

}  // namespace dimred::method
