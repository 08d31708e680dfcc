#pragma once

#include "method/method.h"

namespace dimred::method {

/// Line-searched quasi-Newton descent in the rows of P, and beside it the momentum of what lies
/// outside them: P-BFGS and the presets. Reads P twice a step, or three times with the curvature of
/// the same batch. See docs/explanation/method.md.
class QuasiNewton final : public Method {
 public:
  QuasiNewton(const MethodOptions& options, std::span<const Eigen::Index> block_sizes);

  StateDict state_dict() const override;
  void restore(const StateDict& dict) override;

 private:
  /// The state that a step leaves for the next.
  struct State {
    InverseHessian h;
    Eigen::VectorXd s;              // t d of the last accepted step [k]
    Eigen::VectorXd last_gradient;  // its g_k [k]
    bool has_last = false;          // there was one, and the step before this was it
  };

  StepReport descend(SubspaceSpace& space, double progress) override;
  void learn_between_batches(State& next, const Eigen::VectorXd& g_k, StepReport& report) const;
  void learn_on_the_same_batch(SubspaceSpace& space,
                               const Eigen::VectorXd& g_k,
                               State& next,
                               StepReport& report) const;
  double end_failed_search(const SearchResult& search, const Eigen::VectorXd& d, State& next) const;

  MethodOptions options_;
  DecayFactor alpha_factor_;
  UpdateRule* rule_;
  State state_;
};

}  // namespace dimred::method
