#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "method/update_rules.h"

namespace dimred::method {

/// A pair (s, y) is used only when  s'y > max(absolute, relative |s| |y|),  with which BFGS keeps H
/// positive definite although y may come from two different batches.
struct CurvatureFloors {
  double absolute = 1e-20;  // >= 0, as published (DLDR, MindSpore)
  double relative = 0;      // [0, 1): the cosine between s and y
};

enum class UpdateOutcome { none, updated, skipped, damped };  // none: there was no pair
const char* name(UpdateOutcome outcome);

struct Direction {
  Eigen::VectorXd d;   // [k]
  double slope = 0;    // g_k'd, negative unless g_k = 0
  bool reset = false;  // somewhere -H g_k was no descent direction: d = -g_k and H was set to I
};

/// H [k x k], block-diagonal where P is; float64.
class InverseHessian {
 public:
  /// The identity.
  explicit InverseHessian(std::span<const Eigen::Index> block_sizes);

  /// Each block learns from its own part of s and y [k] by `rule`, unless the part's curvature is
  /// below a floor, the rule skips it or anything is not finite; skipped: no block has learnt.
  UpdateOutcome update(const Eigen::VectorXd& s,
                       const Eigen::VectorXd& y,
                       UpdateRule* rule,
                       const CurvatureFloors& floors);

  /// d = -H g_k; a block whose slope is not negative or not finite is reset to I.
  Direction direction(const Eigen::VectorXd& g_k);

  /// y by blocks, each damped so that s'y >= 0.2 s'Bs, with B the inverse of H and `b_s` = B s [k].
  Eigen::VectorXd damped(const Eigen::VectorXd& s,
                         const Eigen::VectorXd& y,
                         const Eigen::VectorXd& b_s) const;

  /// The blocks' numbers one after the other, and back; throws std::invalid_argument for another
  /// count.
  std::vector<double> values() const;
  void restore(std::span<const double> numbers);

  const std::vector<Eigen::MatrixXd>& blocks() const { return blocks_; }
  bool operator==(const InverseHessian&) const = default;

 private:
  std::vector<Eigen::MatrixXd> blocks_;
};

/// Powell's damping: y, or where s'y < 0.2 s'Bs the blend theta y + (1 - theta) Bs with which
/// s'y = 0.2 s'Bs, so that H stays positive definite without skipping.
/// Source: Nocedal & Wright, 2nd ed., procedure 18.2.
Eigen::VectorXd powell_damped(const Eigen::VectorXd& s,
                              const Eigen::VectorXd& y,
                              const Eigen::VectorXd& b_s);

}  // namespace dimred::method
