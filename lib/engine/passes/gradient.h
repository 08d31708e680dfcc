#pragma once

#include <cstdint>
#include <functional>
#include <future>

#include "engine/passes/buckets.h"
#include "engine/setup.h"

namespace dimred::engine {

/// Which random draws (dropout) a forward pass makes: a pure function of these, of the rank and of
/// the pass within the step, so that a line-search trial sees the same masks as the gradient, and a
/// resumed run the same as an uninterrupted one.
struct ForwardKey {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

/// Seeds the generator, and a margin head's, for this rank's pass number `pass` of the step: one
/// draw per rank and pass of the step's own stream.
void seed_pass(const Setup& setup, ForwardKey key, std::int64_t pass);

struct BatchResult {
  double loss_sum = 0;  // over all ranks
  double correct_count = 0;
  double sample_count = 0;
  void add(const BatchResult& more) {
    loss_sum += more.loss_sum;
    correct_count += more.correct_count;
    sample_count += more.sample_count;
  }
  double mean_loss() const { return loss_sum / sample_count; }
  double accuracy() const { return correct_count / sample_count; }
};

/// The result of a pass that the device may still be at work on. The first get() waits for the
/// device and for all ranks, who ask at the same point.
using PendingResult = std::shared_future<BatchResult>;

/// Loss of the global batch, and its mean gradient times setup.model.loss_scale into
/// setup.model.flat.gradient (each rank's part; the caller reduces it, or `buckets` has started to,
/// and divides it). Running statistics move, by the setup's policy over ranks. `global_count` is
/// the step's samples over all ranks; this rank's part may be empty. Waits for nothing: what is
/// queued next on the device comes behind it.
PendingResult start_loss_and_gradient(Setup& setup,
                                      const models::Minibatch& batch,
                                      std::int64_t global_count,
                                      ForwardKey key,
                                      GradientBuckets* buckets = nullptr);
/// Evaluates without gradient: the same weights give the same loss bit for bit.
PendingResult start_loss(Setup& setup, const models::Minibatch& batch, ForwardKey key);

/// Other ranks wait for this one at every batch, also when it has no sample of it.
bool needs_all_ranks(const Model& model);

/// Runs `change`, which writes to all of the network's buffers; the constants() among them get
/// their values back.
void change_buffers(Model& model, const std::function<void()>& change);

/// BatchNorm's running statistics of all ranks become one, by the setup's policy.
void share_running_statistics(Setup& setup);

/// [2] float64 on the device: sums of loss and correct count.
torch::Tensor sums_of(const models::Evaluation& evaluation);

}  // namespace dimred::engine
