#include "training/weights/soup.h"

#include <algorithm>
#include <numeric>
#include <ranges>

#include "checkpoints/artifact.h"
#include "merge/row_sums.h"
#include "support/errors.h"
#include "training/evaluate.h"
#include "training/weights/weights.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

/// BatchNorm's running statistics are estimated on about this many training images per candidate.
constexpr std::int64_t recalibration_images = 10000;

/// Estimates them for the present weights, where the network has any; returns the images used.
std::int64_t recalibrate_candidate(Setup& setup) {
  if (setup.model.batchnorm_layers == 0) return 0;
  const auto batches = std::min(setup.data.steps_per_epoch(),
                                1 + recalibration_images / setup.data.global_batch_size);
  recalibrate_batchnorm(setup, batches);
  return batches * setup.data.global_batch_size;
}

/// Evaluates the validation accuracy of candidates, and counts the cost.
class SoupEvaluator {
 public:
  explicit SoupEvaluator(Setup& setup) : setup_(setup) {}

  double accuracy(const Weights& weights) {
    apply(setup_.model, weights);
    images_ += recalibrate_candidate(setup_) + setup_.data.validation->size();
    return evaluate(setup_, *setup_.data.validation).accuracy;
  }
  std::int64_t images() const { return images_; }

 private:
  Setup& setup_;
  std::int64_t images_ = 0;
};

}  // namespace

void choose_greedily(const std::vector<double>& alone,
                     const std::function<double(std::size_t)>& accuracy_with,
                     const std::function<void(std::size_t)>& take) {
  std::vector<std::size_t> order(alone.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return alone[i]; });
  double best = alone[order.front()];
  take(order.front());
  for (const auto i : order | std::views::drop(1)) {
    const double accuracy = accuracy_with(i);
    if (accuracy < best) continue;
    best = accuracy;
    take(i);
  }
}

Soup greedy_soup(Setup& setup, const fs::path& folder, std::int64_t latest) {
  require(setup.data.validation != nullptr,
          "[start] start = soup chooses by validation accuracy: needs "
          "--validation_fraction > 0");
  SoupEvaluator evaluator(setup);
  const auto files = checkpoints::member_weights(latest_members(folder, latest));
  std::vector<double> alone;
  for (const auto& file : files) alone.push_back(evaluator.accuracy(load_weights(setup, file)));

  merge::RowMean soup;
  Weights best, candidate;
  const auto with = [&](std::size_t i) {
    candidate = load_weights(setup, files[i]);
    auto mean = soup;
    mean.add(candidate.values);
    candidate.values = mean.values();
    return mean;
  };
  const auto accuracy_with = [&](std::size_t i) {
    with(i);
    return evaluator.accuracy(candidate);
  };
  choose_greedily(alone, accuracy_with, [&](std::size_t i) {
    soup = with(i);
    best = std::move(candidate);
  });
  best.kind = "mean";
  best.needs_recalibration = true;
  best.source =
      formatted("greedy soup of {} of {} snapshots in {}", soup.count(), files.size(), folder);
  return {
      .weights = std::move(best), .taken = soup.count(), .images_evaluated = evaluator.images()};
}

}  // namespace dimred::training
