#pragma once

#include "engine/input/batches.h"
#include "method/presets.h"
#include "stage2/tensor_space.h"
#include "stage2/weight_decay.h"

namespace dimred::stage2 {

/// BatchNorm's running statistics of a moment.
class RunningStatistics {
 public:
  explicit RunningStatistics(const engine::Setup& setup);
  void restore(engine::Model& model) const;

 private:
  torch::Tensor floats_, counters_;
};

/// The trainer's network as the space that a method descends in: loss and gradient of a global
/// batch with their penalties, each trial the same function of the weights as the gradient's pass.
class NetworkSpace final : public TensorSpace {
 public:
  /// With `trial_batchnorm_moving` the running statistics of trials stay, as published.
  NetworkSpace(engine::Setup& setup,
               Subspace subspace,
               const method::PenaltyOptions& penalty,
               bool trial_batchnorm_moving);

  /// The next step's batch, which has to live until that step ends.
  void set_batch(const engine::DeviceBatch& batch) { batch_ = &batch; }

  void gradient(method::Buffers buffers) override;
  double loss() override;
  void restore() override;

  /// The result of the last gradient(Buffers::move): the batch's own, without penalties.
  engine::BatchResult result() const { return result_.get(); }
  /// BatchNorm's running statistics as they were before it.
  void restore_statistics() { statistics_->restore(setup_.model); }

  /// Passes over batches since the last call.
  struct Passes {
    std::int64_t forward = 0, backward = 0;
  };
  Passes take_passes() { return std::exchange(passes_, {}); }

 private:
  double gradient_loss() override { return result_here_.get().mean_loss() + decay_.get(); }
  torch::Tensor pass();
  torch::Tensor ascent();

  engine::Setup& setup_;
  method::PenaltyOptions penalty_;
  bool trial_batchnorm_moving_;
  const engine::DeviceBatch* batch_ = nullptr;
  torch::Tensor shift_;  // SAM's, the same for the gradient and for every trial of the step
  std::optional<RunningStatistics> statistics_;  // before the step
  engine::PendingResult result_, result_here_;   // of the step's gradient, and of the latest one
  PendingDecay decay_;
  Passes passes_;
};

}  // namespace dimred::stage2
