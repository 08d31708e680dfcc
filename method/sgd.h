#pragma once

#include "method/method.h"

namespace dimred::method {

/// SGD in the rows of P, and beside it, with alpha > 0, the residual part:
///   v <- momentum v + P g,  m <- gamma m + (g - P'P g),  w <- w - learning_rate P'v - alpha m
/// P-SGD of DLDR is alpha = 0, TWA the same in the span of the snapshots. Without a subspace (k =
/// 0), with gamma = momentum and alpha = learning_rate, it is SGD in all weights. Reads P twice a
/// step.
class Sgd final : public Method {
 public:
  Sgd(MethodOptions options, std::span<const Eigen::Index> block_sizes);

  StateDict state_dict() const override;
  void restore(const StateDict& dict) override;

 private:
  StepReport descend(SubspaceSpace& space, double progress) override;

  MethodOptions options_;
  DecayFactor rate_factor_, alpha_factor_;
  Eigen::VectorXd velocity_;  // v [k]
};

}  // namespace dimred::method
