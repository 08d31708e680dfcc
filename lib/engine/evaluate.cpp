#include "engine/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/data_sets.h"
#include "engine/input/batches.h"
#include "engine/passes/gradient.h"
#include "support/errors.h"
#include "support/scope_exit.h"

namespace dimred::engine {
namespace {

/// Images of a rank's batch: many enough to be fast, few enough for any memory (32 MB of them).
std::int64_t evaluation_batch(const data::ImageShape& shape) {
  const auto bytes = shape.size() * std::int64_t{sizeof(float)};
  return std::clamp<std::int64_t>((std::int64_t{32} << 20) / bytes, 1, 1000);
}

std::string first_message(const data::LoaderReport& report) {
  return report.messages.empty() ? std::string() : report.messages.front();
}

}  // namespace

std::string bad_text(const Score& score, const char* set) {
  return formatted(
      "{} bad samples are left out of the {} set; the first: {}", score.bad, set, score.first_bad);
}

data::LoaderReport for_each_batch(Setup& setup,
                                  const data::Dataset& dataset,
                                  const std::function<void(const DeviceBatch&)>& visit) {
  auto& communicator = *setup.communicator;
  const data::Order order{.seed = 0, .size = dataset.size(), .shuffled = false};
  const auto plain = data::without_augmentation(setup.data.preprocessing);
  auto options = loader_options(setup);
  options.batch_size = evaluation_batch(setup.data.image_shape) * communicator.size();
  if (options.bad_sample == data::BadSample::replace) options.bad_sample = data::BadSample::drop;
  const auto batches = make_batches(setup, dataset, order, plain, options, /*epoch=*/0);
  while (auto batch = next_on_all_ranks(setup, *batches)) {
    // The last batch may have fewer samples than ranks.
    if (batch->count() == 0 && !needs_all_ranks(setup.model)) continue;
    visit(*batch);
    batches->recycle(std::move(*batch));
  }
  return batches->report();
}

Score evaluate(Setup& setup, const data::Dataset& dataset) {
  const torch::NoGradGuard no_grad;
  require_variances(setup.model, "[evaluate]");
  auto& communicator = *setup.communicator;
  std::array<double, 4> sums{};  // loss, correct, samples, bad ones
  const auto add = [&](const DeviceBatch& batch) {
    const auto result = setup.model.objective->evaluate(batch.tensors, models::Mode::evaluate);
    const auto copied = read_back(sums_of(result));
    if (batch.prefetch_next) batch.prefetch_next();
    const auto* loss_and_hits = copied.get().const_data_ptr<double>();
    sums[0] += loss_and_hits[0];
    sums[1] += loss_and_hits[1];
    sums[2] += result.sample_count;
  };
  const auto report = for_each_batch(setup, dataset, add);
  sums[3] = report.bad_samples;
  communicator.sum(sums);
  Score score{.samples = static_cast<std::int64_t>(sums[2]),
              .bad = static_cast<std::int64_t>(sums[3])};
  if (score.bad > 0) {
    for (const auto& text : communicator.gather(first_message(report)))
      if (score.first_bad.empty()) score.first_bad = text;
  }
  require_environment(score.samples > 0,
                      "[evaluate] none of the {} samples can be decoded; the first error is: {}",
                      dataset.size(),
                      score.first_bad);
  score.loss = sums[0] / sums[2];
  score.accuracy = sums[1] / sums[2];
  return score;
}

Score finite_score(Setup& setup, const data::Dataset& dataset, const char* set) {
  auto score = evaluate(setup, dataset);
  require_environment(std::isfinite(score.loss),
                      "[evaluate] needs weights with a finite loss, received the loss {} "
                      "on the {} set, {}",
                      std::isnan(score.loss) ? "NaN" : "infinity",
                      set,
                      dataset.title());
  return score;
}

void recalibrate_batchnorm(Setup& setup, std::int64_t batches_wanted) {
  auto& model = setup.model;
  if (model.batchnorm_layers == 0) return;
  require_cache_for_pass(setup.data);
  const torch::NoGradGuard no_grad;
  model.objective->reset_running_statistics();
  model.objective->set_cumulative_batchnorm(true);
  const ScopeExit back([&model] { model.objective->set_cumulative_batchnorm(false); });
  const auto batches = training_batches(setup, /*epoch=*/0);
  const bool synchronized = model.batchnorm_statistics == BatchNormPolicy::synchronized;
  std::array<double, 1> done{};
  for (std::int64_t i = 0; batches_wanted == 0 || i < batches_wanted; ++i) {
    auto batch = next_on_all_ranks(setup, *batches);
    if (!batch) break;
    if (batch->count() == 0 && !synchronized) continue;
    ++done[0];
    seed_pass(setup, {.epoch = 0, .step = i}, /*pass=*/0);
    model.objective->logits(batch->tensors.images, models::Mode::train);
    batches->recycle(std::move(*batch));
  }
  if (setup.communicator->size() == 1) return;
  change_buffers(model, [&] {
    model.flat.buffers.mul_(done[0]);  // the mean over batches, a rank's may be fewer
    setup.communicator->all_reduce(model.flat.buffers);
    setup.communicator->sum(done);
    model.flat.buffers.div_(done[0]);
  });
}

}  // namespace dimred::engine
