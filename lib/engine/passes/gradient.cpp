#include "engine/passes/gradient.h"

#include <ATen/record_function.h>

#include <array>
#include <vector>

#include "engine/device/device_stream.h"
#include "support/errors.h"
#include "support/random.h"

namespace dimred::engine {

void seed_pass(const Setup& setup, ForwardKey key, std::int64_t pass) {
  RandomStream stream(setup.seed, RandomPurpose::forward, key.epoch, key.step);
  const auto before = setup.communicator->rank() * setup.model.gradient_accumulation + pass;
  for (std::int64_t i = 0; i < before; ++i) stream.next();
  torch::manual_seed(stream.next());
  if (auto* head = setup.model.objective->head()) head->begin_pass(key.epoch, key.step, pass);
}

namespace {

/// Sums over all ranks of what each pass of this one gives: [2] float64, loss and correct count.
BatchResult sum_passes(distributed::TensorCommunicator& communicator,
                       const std::vector<HostCopy>& passes,
                       std::int64_t samples) {
  std::array<double, 3> sums{0, 0, static_cast<double>(samples)};
  for (const auto& pass : passes) {
    const auto* loss_and_hits = pass.get().const_data_ptr<double>();
    sums[0] += loss_and_hits[0];
    sums[1] += loss_and_hits[1];
  }
  communicator.sum(sums);
  return {sums[0], sums[1], sums[2]};
}

/// The batch in `passes` even parts. Parts without samples are left out, unless BatchNorm's
/// statistics over ranks, or a head over them, need everybody at every pass.
std::vector<models::Minibatch> parts_of(const Model& model, const models::Minibatch& batch) {
  const auto passes = model.gradient_accumulation;
  const auto count = batch.labels.size(0);
  const bool all =
      model.batchnorm_statistics == BatchNormPolicy::synchronized || needs_all_ranks(model);
  std::vector<models::Minibatch> parts;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const auto begin = pass * count / passes;
    const auto size = (pass + 1) * count / passes - begin;
    if (size > 0 || all)
      parts.push_back({batch.images.narrow(0, begin, size), batch.labels.narrow(0, begin, size)});
  }
  return parts;
}

/// Adds scale x the gradient of the part's loss / `divisor` to the setup's. Returns [2] float64:
/// sums of loss and correct count.
torch::Tensor add_gradient(Model& model,
                           const models::Minibatch& part,
                           std::int64_t divisor,
                           const torch::Tensor& scale) {
  const auto evaluation = [&] {
    RECORD_USER_SCOPE("forward");
    return model.objective->evaluate(part, models::Mode::train);
  }();
  RECORD_USER_SCOPE("backward");
  const auto mean = evaluation.loss_sum / divisor;
  mean.backward(scale);
  return sums_of(evaluation);
}

/// pass(part, scale): by its graph, or where that is null (nothing is recorded) as it is.
template <class PartPass>
torch::Tensor run_pass(RecordedPass* graph,
                       const Model& model,
                       const models::Minibatch& part,
                       double scale,
                       const PartPass& pass) {
  return graph != nullptr ? graph->run(part, scale, pass)
                          : pass(part, scale_on(model.device, scale));
}

/// `pass` over each part of the batch, which returns its sums.
template <class PartPass>
PendingResult over_parts(Setup& setup,
                         const models::Minibatch& batch,
                         ForwardKey key,
                         const PartPass& pass,
                         GradientBuckets* buckets = nullptr) {
  std::vector<HostCopy> passes;
  const auto parts = parts_of(setup.model, batch);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    seed_pass(setup, key, i);
    if (buckets != nullptr && i + 1 == parts.size()) buckets->begin();
    passes.push_back(read_back(pass(parts[i])));
  }
  // Deferred: no thread of its own may call the communicator.
  return std::async(
             std::launch::deferred,
             [ranks = setup.communicator,
              passes = std::move(passes),
              samples = batch.labels.size(0)] { return sum_passes(*ranks, passes, samples); })
      .share();
}

}  // namespace

torch::Tensor sums_of(const models::Evaluation& evaluation) {
  return torch::stack({evaluation.loss_sum.detach(), evaluation.correct_count.to(torch::kFloat64)});
}

bool needs_all_ranks(const Model& model) {
  const auto* head = model.objective->head();
  return head != nullptr && head->needs_all_ranks();
}

void change_buffers(Model& model, const std::function<void()>& change) {
  const torch::NoGradGuard no_grad;
  const auto constants = model.objective->constants();
  std::vector<torch::Tensor> values;
  for (const auto& constant : constants) values.push_back(constant.clone());
  change();
  for (std::size_t i = 0; i < constants.size(); ++i) constants[i].copy_(values[i]);
}

void share_running_statistics(Setup& setup) {
  auto& communicator = *setup.communicator;
  if (communicator.size() == 1 || setup.model.flat.buffers.numel() == 0) return;
  const torch::NoGradGuard no_grad;
  switch (setup.model.batchnorm_statistics) {
    case BatchNormPolicy::averaged:
      change_buffers(setup.model, [&] {
        communicator.all_reduce(setup.model.flat.buffers);
        setup.model.flat.buffers.div_(communicator.size());
      });
      break;
    case BatchNormPolicy::rank0:
      communicator.broadcast(setup.model.flat.buffers, 0);
      break;
    case BatchNormPolicy::synchronized:
      break;
  }
}

PendingResult start_loss_and_gradient(Setup& setup,
                                      const models::Minibatch& batch,
                                      std::int64_t global_count,
                                      ForwardKey key,
                                      GradientBuckets* buckets) {
  auto& model = setup.model;
  check(!model.graphs || global_count == batch.labels.size(0),
        "passes of one rank alone are recorded");
  model.flat.gradient.zero_();
  auto* graph = model.graphs ? &model.graphs->gradient : nullptr;
  const auto gradient = [&](const models::Minibatch& part, const torch::Tensor& scale) {
    return add_gradient(model, part, global_count, scale);
  };
  const auto pass = [&](const models::Minibatch& part) {
    return run_pass(graph, model, part, model.loss_scale.value(), gradient);
  };
  auto result = over_parts(setup, batch, key, pass, buckets);
  if (buckets != nullptr) buckets->start_rest();
  // After every step, so that a state saved in the middle of an epoch changes nothing.
  share_running_statistics(setup);
  return result;
}

PendingResult start_loss(Setup& setup, const models::Minibatch& batch, ForwardKey key) {
  const torch::NoGradGuard no_grad;
  auto& model = setup.model;
  auto* graph = model.graphs ? &model.graphs->loss : nullptr;
  const auto loss = [&](const models::Minibatch& part, const torch::Tensor& /*scale*/) {
    return sums_of(model.objective->evaluate(part, models::Mode::train));
  };
  return over_parts(setup, batch, key, [&](const models::Minibatch& part) {
    return run_pass(graph, model, part, /*scale=*/1, loss);
  });
}

}  // namespace dimred::engine
