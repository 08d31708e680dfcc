#pragma once

#include <torch/types.h>

#include <vector>

#include "distributed/columns.h"
#include "method/subspace_space.h"
#include "stage2/subspace.h"

namespace dimred::stage2 {

/// The vectors of a descent as tensors over ranks: all ranks hold w [memory_size] whole, and of P,
/// g and m their own columns. Loss and gradient are left to those who know them.
class TensorSpace : public method::SubspaceSpace {
 public:
  /// `weights` [memory_size] is moved in place; m begins as zeros.
  TensorSpace(Subspace subspace,
              distributed::TensorCommunicator& communicator,
              const distributed::Columns& columns,
              torch::Tensor weights);

  std::span<const Eigen::Index> block_sizes() const override { return block_sizes_; }
  method::Projection project() override;
  void set_line(const method::Line& line) override;
  void move_to(double t) override;
  void subtract_momentum(double alpha) override;
  void restore() override;

  const Subspace& subspace() const { return subspace_; }
  /// m, own columns: with the method's numbers it is the resume state.
  torch::Tensor& momentum() { return momentum_; }

 protected:
  /// To be called first by gradient(): the step before is over, and its two vectors of M make room
  /// for what the sum over ranks receives.
  void begin_gradient(method::Buffers buffers);
  /// To be called by gradient(): the mean gradient at w, own columns.
  void set_gradient(torch::Tensor own) { gradient_ = std::move(own); }
  const torch::Tensor& weights() const { return weights_; }
  distributed::TensorCommunicator& communicator() const { return communicator_; }
  const distributed::Columns& columns() const { return columns_; }

 private:
  /// The loss that gradient() found; asked for once the projection has come to the host.
  virtual double gradient_loss() = 0;

  void keep_momentum();
  torch::Tensor own_direction(const method::Line& line);

  Subspace subspace_;
  std::vector<Eigen::Index> block_sizes_;
  distributed::TensorCommunicator& communicator_;
  const distributed::Columns& columns_;
  torch::Tensor weights_;
  torch::Tensor gradient_;                   // g, own columns
  torch::Tensor momentum_, other_momentum_;  // m, and where the next m is made, own columns
  bool momentum_moved_ = false;              // in this step: the other one is the m before it
  torch::Tensor start_, direction_;          // w before the step, and u, all columns
  double t_ = 0;                             // where w stands on the line
};

}  // namespace dimred::stage2
