#include "soup/held_out_loss.h"

#include "support/errors.h"
#include "support/scope_exit.h"
#include "training/data_sets.h"
#include "training/input/batches.h"
#include "training/passes/gradient.h"

namespace dimred::soup {

HeldOutLoss::HeldOutLoss(training::Setup& setup, const data::Dataset& samples)
    : setup_(setup), samples_(samples) {
  if (setup.model.batchnorm_layers > 0)
    training::require_cache_for_all(setup.data, "learning takes held-out samples in random order");
}

/// `pass` gets a batch's evaluation; the mean loss. Running statistics are as before.
template <class Pass>
double HeldOutLoss::over_batches(const Pass& pass) {
  auto& model = setup_.model;
  const ScopeExit back(
      [&model, buffers = model.flat.buffers.clone(), counters = model.flat.counters.clone()] {
        const torch::NoGradGuard no_grad;
        model.flat.buffers.copy_(buffers);
        model.flat.counters.copy_(counters);
      });
  const bool batchnorm = model.batchnorm_layers > 0;
  // A folder has its classes in order, and the statistics of a batch of one class are far from the
  // running ones.
  const data::Order order{.seed = 0, .size = samples_.size(), .shuffled = batchnorm};
  const auto plain = data::without_augmentation(setup_.data.preprocessing);
  auto options = training::loader_options(setup_);
  if (options.bad_sample == data::BadSample::replace) options.bad_sample = data::BadSample::drop;
  const auto batches = training::make_batches(setup_, samples_, order, plain, options, /*epoch=*/0);
  const auto mode = batchnorm ? models::Mode::train : models::Mode::evaluate;
  double loss = 0;
  std::int64_t count = 0;
  for (std::int64_t i = 0; auto batch = training::next_on_all_ranks(*batches, *setup_.communicator);
       ++i) {
    training::seed_pass(setup_, {.epoch = 0, .step = i}, /*pass=*/0);
    const auto result = model.objective->evaluate(batch->tensors, mode);
    pass(result);
    loss += result.loss_sum.item<double>();
    count += result.sample_count;
    batches->recycle(std::move(*batch));
  }
  require_environment(count > 0, "[soup] none of the held-out samples can be decoded");
  forward_images_ += count;
  return loss / static_cast<double>(count);
}

double HeldOutLoss::loss() {
  const torch::NoGradGuard no_grad;
  return over_batches([](const models::Evaluation& /*result*/) {});
}

double HeldOutLoss::gradient(torch::Tensor sum) {
  const at::AutoGradMode with_grad(true);
  auto& gradient = setup_.model.flat.gradient;
  {
    const torch::NoGradGuard no_grad;
    sum.zero_();
  }
  std::int64_t count = 0;
  const double loss = over_batches([&](const models::Evaluation& result) {
    {
      const torch::NoGradGuard no_grad;
      gradient.zero_();
    }
    result.loss_sum.backward();
    const torch::NoGradGuard no_grad;
    sum.add_(gradient);
    count += result.sample_count;
  });
  const torch::NoGradGuard no_grad;
  sum.div_(static_cast<double>(count));
  backward_images_ += count;
  return loss;
}

}  // namespace dimred::soup
