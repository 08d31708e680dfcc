#pragma once

#include <Eigen/Core>

namespace dimred::stage2 {

/// A pair (s, y) is used only when  s'y > max(curvature_floor, relative_curvature_floor |s| |y|),
/// which keeps H positive definite although y may come from two different batches.
struct BfgsOptions {
  double curvature_floor = 1e-20;       // >= 0, as published (DLDR, MindSpore)
  double relative_curvature_floor = 0;  // [0, 1): the cosine between s and y
};

/// Throws std::invalid_argument("[stage2::bfgs] rule, received ...").
void validate(const BfgsOptions& options);

enum class UpdateOutcome { none, updated, skipped, damped };  // none: there is no previous step
const char* name(UpdateOutcome outcome);

/// H <- (I - r s y') H (I - r y s') + r s s',  r = 1 / s'y, so that H y = s. In place, [k x k]
/// float64. Returns skipped, H untouched, when the curvature s'y is too small or anything is not
/// finite. Cost: O(k^2). Source: Nocedal & Wright, 2nd ed., equation (6.17).
UpdateOutcome update(Eigen::MatrixXd& inverse_hessian,
                     const Eigen::VectorXd& s,
                     const Eigen::VectorXd& y,
                     const BfgsOptions& options);

/// Powell's damping: y, or where s'y < .2 s'Bs the blend theta y + (1 - theta) Bs with which
/// s'y = .2 s'Bs, so that H stays positive definite without skipping. B = inverse of H; `b_s` = B s
/// [k]. Source: Nocedal & Wright, 2nd ed., procedure 18.2.
Eigen::VectorXd powell_damped(const Eigen::VectorXd& s,
                              const Eigen::VectorXd& y,
                              const Eigen::VectorXd& b_s);

struct Direction {
  Eigen::VectorXd d;   // [k]
  double slope = 0;    // g_k'd, negative unless g_k = 0
  bool reset = false;  // -H g_k was no descent direction: d = -g_k and H was set to I
};

/// d = -H g_k; when the slope is not negative or not finite, H is reset to I.
Direction direction(Eigen::MatrixXd& inverse_hessian, const Eigen::VectorXd& gradient);

}  // namespace dimred::stage2
