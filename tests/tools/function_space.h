#pragma once

#include <functional>

#include "stage2/tensor_space.h"

namespace dimred::stage2 {

/// A descent over ranks whose loss and gradient are any functions of the weights.
class FunctionSpace final : public TensorSpace {
 public:
  FunctionSpace(Subspace subspace,
                distributed::TensorCommunicator& communicator,
                const distributed::Columns& columns,
                const torch::Tensor& weights,
                std::function<double()> loss,
                std::function<torch::Tensor()> gradient)  // own columns
      : TensorSpace(std::move(subspace), communicator, columns, weights),
        loss_at_weights(std::move(loss)),
        gradient_at_weights(std::move(gradient)) {}

  void gradient(method::Buffers buffers) override {
    begin_gradient(buffers);
    set_gradient(gradient_at_weights());
    gradient_loss_ = loss_at_weights();
  }
  double loss() override { return trial ? trial(loss_at_weights()) : loss_at_weights(); }

  std::function<double()> loss_at_weights;
  std::function<torch::Tensor()> gradient_at_weights;
  std::function<double(double)> trial;  // a trial's loss in the place of the function's

 private:
  double gradient_loss() override { return gradient_loss_; }

  double gradient_loss_ = 0;
};

}  // namespace dimred::stage2
