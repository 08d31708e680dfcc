#pragma once

#include <torch/types.h>

#include <Eigen/Core>
#include <functional>
#include <vector>

#include "stage2/place.h"
#include "stage2/presets.h"

namespace dimred::stage2 {

/// What quasi-Newton descent carries from step to step; with the weights it is the resume state.
struct StepState {
  std::vector<Eigen::MatrixXd> inverse_hessians;  // H [k x k] of each block
  Eigen::VectorXd s;                              // t d of the last accepted step [components]
  Eigen::VectorXd last_gradient;                  // its g_k [components]
  bool has_last = false;                          // there was one, and the step before this was it
  torch::Tensor residual_momentum;                // m, own columns
};
StepState initial_state(const Place& place);

/// The loss of one global batch as a function of the weights.
struct BatchLoss {
  std::function<double()> loss;                  // at the weights of before the step
  torch::Tensor gradient;                        // its mean gradient there, own columns
  std::function<double()> evaluate;              // the same loss wherever the weights now are
  std::function<torch::Tensor()> gradient_here;  // and its gradient there, own columns
};

struct StepReport {
  double loss = 0;            // before the step
  double slope = 0;           // of the searched direction
  double curvature = 0;       // s'y of the pair offered to H
  double direction_norm = 0;  // |d|
  double residual_norm = 0;   // |g - P' g_k| = sqrt(|g|^2 - |g_k|^2)
  SearchResult search;
  double step_size = 0;  // really taken: 0 after a failed search with no_step
  UpdateOutcome update = UpdateOutcome::none;
  bool reset = false;              // H was reset to I
  bool residual_left_out = false;  // the joint direction was no descent, the m part was dropped
  bool not_finite = false;         // gradient not finite: nothing was changed
  std::int64_t gradients = 0;      // computed beside the batch's own
  double rate = 0;                 // learning rate, or alpha of the quasi-Newton methods
};

/// One step of line-searched quasi-Newton descent in the place's subspace, in place on `weights`
/// [memory_size, all columns] and `state`. Reads P twice, or three times with the curvature of the
/// same batch. See docs/methods.md.
StepReport step(const Place& place,
                const BatchLoss& batch,
                torch::Tensor& weights,
                StepState& state,
                const StepOptions& options);

}  // namespace dimred::stage2
