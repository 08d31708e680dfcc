#include "stage2/batch_loss.h"

#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "optimizers/sgd.h"
#include "stage2/projection.h"

namespace dimred::stage2 {
namespace {

using training::Setup;

double sum_of(const training::HostCopy& parts) {
  const auto& values = parts.get();
  const auto* first = values.const_data_ptr<double>();
  return std::accumulate(first, first + values.numel(), 0.0);
}

/// |w|^2 over the columns in `range` that decay, by its parts.
training::HostCopy start_decaying_square(const Setup& setup, const layout::ColumnRange& range) {
  std::vector<Product> products;
  for (const auto& [columns, decay] : optimizers::decay_ranges(setup.flat.layout)) {
    const auto begin = std::max(columns.begin, range.begin);
    const auto end = std::min(columns.end, range.end);
    if (!decay || begin >= end) continue;
    const auto w = setup.flat.weights.narrow(0, begin, end - begin);
    products.push_back({.basis = {}, .vector = w, .others = {w}});
  }
  return start_project(products);
}

/// weight_decay |w|^2 / 2 over the columns that decay, under way.
struct PendingDecay {
  double weight_decay = 0;
  training::HostCopy replicated;  // |w|^2 by its parts
  training::HostCopy sharded;     // of own columns; none where nothing is sharded
  std::shared_ptr<distributed::Communicator> communicator;

  /// The same bits on every rank; all ask at the same point.
  double get() const {
    if (weight_decay == 0) return 0;
    std::array<double, 1> others{};
    if (sharded.exists()) {
      others[0] = sum_of(sharded);
      communicator->all_reduce(others);
    }
    return weight_decay * (sum_of(replicated) + others[0]) / 2;
  }
};

/// Of the weights of now.
PendingDecay start_decay_loss(const Setup& setup, double weight_decay) {
  PendingDecay pending{.weight_decay = weight_decay, .communicator = setup.communicator};
  if (weight_decay == 0) return pending;
  const auto& layout = setup.flat.layout;
  pending.replicated = start_decaying_square(setup, {0, layout.replicated_size});
  if (layout.sharded()) pending.sharded = start_decaying_square(setup, setup.columns.sharded);
  return pending;
}

/// Its gradient, added to own columns.
void add_decay(const Setup& setup, double weight_decay, torch::Tensor& own_gradient) {
  if (weight_decay == 0) return;
  const auto ranges = optimizers::decay_ranges(setup.flat.layout);
  std::int64_t before = 0;  // own columns of earlier ranges
  for (const auto& own : setup.columns.own.memory) {
    for (const auto& [columns, decay] : ranges) {
      const auto begin = std::max(columns.begin, own.begin);
      const auto size = std::min(columns.end, own.end) - begin;
      if (!decay || size <= 0) continue;
      own_gradient.narrow(0, before + begin - own.begin, size)
          .add_(setup.flat.weights.narrow(0, begin, size), weight_decay);
    }
    before += own.size();
  }
}

struct Buffers {
  explicit Buffers(Setup& setup)
      : setup_(setup),
        floats_(setup.flat.buffers.clone()),
        counters_(setup.flat.counters.clone()) {}
  void put_back() {
    setup_.flat.buffers.copy_(floats_);
    setup_.flat.counters.copy_(counters_);
  }

 private:
  Setup& setup_;
  torch::Tensor floats_, counters_;
};

/// A pass with gradient.
struct Gradient {
  training::PendingResult result;
  torch::Tensor own;  // the mean gradient at the weights of then, own columns
};

Gradient gradient(Setup& setup, const training::Step& now, Passes& passes) {
  const at::AutoGradMode with_grad(true);  // also within a step
  auto result = training::start_loss_and_gradient(setup, now.batch, now.global_count, now.key);
  ++passes.forward;
  ++passes.backward;
  auto own = reduce_scatter(*setup.communicator, setup.flat.gradient, setup.columns);
  setup.loss_scale.unscale(own);  // an overflow shows in |g|^2, on all ranks
  return {std::move(result), std::move(own)};
}

/// radius g / |g| in all columns.
torch::Tensor ascent(const Setup& setup, double radius, const torch::Tensor& own_gradient) {
  std::vector<double> square{inner_product(own_gradient, own_gradient)};
  setup.communicator->all_reduce(square);
  const double norm = std::sqrt(square[0]);
  const auto full = all_gather(*setup.communicator, own_gradient, setup.columns);
  return norm > 0 ? full.mul(radius / norm) : torch::zeros_like(full);  // one rank's is g itself
}

/// `work` at w + shift; the weights are w again afterwards, bit for bit.
template <class Work>
auto shifted(Setup& setup, const torch::Tensor& shift, const Work& work) {
  if (!shift.defined()) return work();
  const torch::NoGradGuard no_grad;
  const auto w = setup.flat.weights.clone();
  setup.flat.weights.add_(shift);
  auto result = work();
  setup.flat.weights.copy_(w);
  return result;
}

}  // namespace

PreparedBatch prepare(Setup& setup,
                      const training::Step& now,
                      const PenaltyOptions& penalty,
                      bool trial_batchnorm_moving,
                      Passes& passes) {
  torch::Tensor shift;  // SAM's, the same for the gradient and for every trial of the step
  if (penalty.sam_radius > 0) {
    Buffers buffers(setup);
    shift = ascent(setup, penalty.sam_radius, gradient(setup, now, passes).own);
    buffers.put_back();
  }
  const auto gradient_at_shift = [&setup, &now, &passes, penalty, shift] {
    auto pass = shifted(setup, shift, [&] { return gradient(setup, now, passes); });
    add_decay(setup, penalty.weight_decay, pass.own);
    return pass;
  };
  const auto pass = gradient_at_shift();
  if (now.meanwhile) now.meanwhile();
  PreparedBatch prepared{.result = pass.result, .loss = {.gradient = pass.own}};
  prepared.loss.loss = [result = pass.result,
                        decay = start_decay_loss(setup, penalty.weight_decay)] {
    return result.get().mean_loss() + decay.get();
  };
  prepared.loss.evaluate = [&setup, &now, &passes, penalty, shift, trial_batchnorm_moving] {
    Buffers buffers(setup);
    const auto result =
        shifted(setup, shift, [&] { return training::start_loss(setup, now.batch, now.key); });
    ++passes.forward;
    if (trial_batchnorm_moving) {
      training::share_running_statistics(setup);
    } else {
      buffers.put_back();
    }
    const auto decay = start_decay_loss(setup, penalty.weight_decay);
    return result.get().mean_loss() + decay.get();  // the trial's one wait for the device
  };
  prepared.loss.gradient_here = [&setup, gradient_at_shift] {
    Buffers buffers(setup);
    auto own = gradient_at_shift().own;
    buffers.put_back();
    return own;
  };
  return prepared;
}

}  // namespace dimred::stage2
