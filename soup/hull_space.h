#pragma once

#include "method/subspace_space.h"
#include "soup/held_out_loss.h"
#include "soup/members.h"

namespace dimred::soup {

/// The affine hull of the members as the space that a method descends in. Its coordinates are those
/// of the coefficients: in each block c = 1/n + E z, where the columns of E [n x (n - 1)] are
/// orthonormal and orthogonal to 1. So coefficients always sum to one, may be negative, and a step
/// of length one leads about as far as from the mean to a member, whatever the weights' scale.
/// There is no residual: methods need alpha = 0.
///
/// Memory: two vectors [M]. A step reads the members twice.
class HullSpace final : public method::SubspaceSpace {
 public:
  /// All must outlive it. Sets the network to the mean.
  HullSpace(training::Setup& setup,
            const Members& members,
            std::vector<layout::ColumnRange> blocks,
            HeldOutLoss& objective);

  std::span<const Eigen::Index> block_sizes() const override { return block_sizes_; }
  void gradient(method::Buffers buffers) override;
  method::Projection project() override;
  void set_line(const method::Line& line) override;
  void move_to(double t) override;
  double loss() override { return objective_.loss(); }
  void subtract_momentum(double alpha) override;
  void restore() noexcept override;

  /// Where w is, [n x blocks].
  Coefficients coefficients() const;

 private:
  Coefficients as_coefficients(const Eigen::VectorXd& z) const;

  training::Setup& setup_;
  const Members& members_;
  std::vector<layout::ColumnRange> blocks_;
  HeldOutLoss& objective_;
  Eigen::MatrixXd directions_;  // E
  std::vector<Eigen::Index> block_sizes_;
  torch::Tensor start_;  // w of before the step
  torch::Tensor line_;   // the gradient, and then the direction u
  double loss_ = 0;      // of the last gradient
  Coefficients start_coefficients_, line_coefficients_;
  double t_ = 0;  // where w stands on the line
};

/// E: the columns of an n x n Helmert matrix but for the constant one.
Eigen::MatrixXd helmert(Eigen::Index n);

}  // namespace dimred::soup
