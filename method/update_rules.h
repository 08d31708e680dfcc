#pragma once

#include <Eigen/Core>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dimred::method {

/// How one block's inverse Hessian learns: the new H [k x k] with H y = s, from the old one and a
/// pair s = the step taken [k], y = the change of g_k over it [k]; nullopt: the rule skips the
/// pair. The caller sees to s'y > 0, skips a result that is not finite, and makes it symmetric. A
/// rule of your own is a file with such a function and its line in update_rules.inc
/// (docs/how-to/add_an_update_rule.md).
using UpdateRule = std::optional<Eigen::MatrixXd>(const Eigen::MatrixXd& inverse_hessian,
                                                  const Eigen::VectorXd& s,
                                                  const Eigen::VectorXd& y);

#define DIMRED_UPDATE_RULE(name) UpdateRule name;
#include "method/update_rules.inc"
#undef DIMRED_UPDATE_RULE

/// All of them by name; the first is the presets'.
const std::vector<std::pair<std::string, UpdateRule*>>& update_rules();

/// The one of this name; throws std::invalid_argument where there is none.
UpdateRule* update_rule(const std::string& name);

}  // namespace dimred::method
