#include "stage2/network_space.h"

#include <torch/utils.h>

#include <cmath>

#include "stage2/projection.h"
#include "support/scope_exit.h"

namespace dimred::stage2 {
namespace {

using engine::Setup;

/// `work` at w + shift; the weights are w again afterwards, bit for bit, also when it throws.
template <class Work>
auto shifted(Setup& setup, const torch::Tensor& shift, const Work& work) {
  if (!shift.defined()) return work();
  const torch::NoGradGuard no_grad;
  const ScopeExit back(
      [&setup, w = setup.model.flat.weights.clone()] { setup.model.flat.weights.copy_(w); });
  setup.model.flat.weights.add_(shift);
  return work();
}

/// `work`; the running statistics are afterwards as before, also when it throws.
template <class Work>
auto keeping_statistics(Setup& setup, const Work& work) {
  const ScopeExit back(
      [&setup, before = RunningStatistics(setup)] { before.restore(setup.model); });
  return work();
}

}  // namespace

RunningStatistics::RunningStatistics(const Setup& setup)
    : floats_(setup.model.flat.buffers.clone()), counters_(setup.model.flat.counters.clone()) {}

void RunningStatistics::restore(engine::Model& model) const {
  const torch::NoGradGuard no_grad;
  model.flat.buffers.copy_(floats_);
  model.flat.counters.copy_(counters_);
}

NetworkSpace::NetworkSpace(Setup& setup,
                           Subspace subspace,
                           const method::PenaltyOptions& penalty,
                           bool trial_batchnorm_moving)
    : TensorSpace(
          std::move(subspace), *setup.communicator, setup.model.columns, setup.model.flat.weights),
      setup_(setup),
      penalty_(penalty),
      trial_batchnorm_moving_(trial_batchnorm_moving) {}

void NetworkSpace::gradient(method::Buffers buffers) {
  const bool first = buffers == method::Buffers::move;
  begin_gradient(buffers);
  if (first) {
    statistics_.emplace(setup_);
    shift_ = penalty_.sam_radius > 0 ? ascent() : torch::Tensor();
  }
  const auto pass_at_shift = [this] { return shifted(setup_, shift_, [this] { return pass(); }); };
  auto own = first ? pass_at_shift() : keeping_statistics(setup_, pass_at_shift);
  add_decay(setup_.model, penalty_, own);
  set_gradient(std::move(own));
  decay_ = start_decay_loss(setup_, penalty_);
  if (!first) return;
  result_ = result_here_;
  if (batch_->prefetch_next) batch_->prefetch_next();
}

/// The mean gradient of the batch at the weights of now, own columns.
torch::Tensor NetworkSpace::pass() {
  const at::AutoGradMode with_grad(true);  // also within a step
  result_here_ =
      engine::start_loss_and_gradient(setup_, batch_->tensors, batch_->global_count, batch_->key);
  ++passes_.forward;
  ++passes_.backward;
  auto own = reduce_scatter(communicator(), setup_.model.flat.gradient, columns());
  setup_.model.loss_scale.unscale(own);  // an overflow shows in |g|^2, on all ranks
  return own;
}

/// radius g / |g| in all columns; none where g is not finite: the step then finds the same at w.
torch::Tensor NetworkSpace::ascent() {
  const auto own = pass();
  restore_statistics();  // restore() does where it throws
  std::vector<double> square{inner_product(own, own)};
  communicator().sum(square);
  const double norm = std::sqrt(square[0]);
  if (!std::isfinite(norm)) return {};
  const auto full = all_gather(communicator(), own, columns());  // one rank's is g itself
  return norm > 0 ? full.mul(penalty_.sam_radius / norm) : torch::zeros_like(full);
}

double NetworkSpace::loss() {
  const auto pass_at_shift = [this] {
    return shifted(setup_, shift_, [this] {
      return engine::start_loss(setup_, batch_->tensors, batch_->key);
    });
  };
  const auto result =
      trial_batchnorm_moving_ ? pass_at_shift() : keeping_statistics(setup_, pass_at_shift);
  ++passes_.forward;
  if (trial_batchnorm_moving_) engine::share_running_statistics(setup_);
  const auto decay = start_decay_loss(setup_, penalty_);
  return result.get().mean_loss() + decay.get();  // the trial's one wait for the device
}

void NetworkSpace::restore() {
  TensorSpace::restore();
  if (statistics_) restore_statistics();
}

}  // namespace dimred::stage2
