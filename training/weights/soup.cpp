#include "training/weights/soup.h"

#include <algorithm>

#include "support/errors.h"
#include "training/evaluate.h"
#include "training/weights/weights.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t recalibration_images = 10000;  // about

/// Evaluates the validation accuracy of candidates, and counts the cost.
class SoupEvaluator {
 public:
  explicit SoupEvaluator(Setup& setup) : setup_(setup) {}

  double accuracy(const Weights& weights) {
    apply(setup_.model, weights);
    if (setup_.model.batchnorm_layers > 0) {
      const auto batches = std::min(setup_.data.steps_per_epoch(),
                                    1 + recalibration_images / setup_.data.global_batch_size);
      recalibrate_batchnorm(setup_, batches);
      images_ += batches * setup_.data.global_batch_size;
    }
    images_ += setup_.data.validation->size();
    return evaluate(setup_, *setup_.data.validation).accuracy;
  }
  std::int64_t images() const { return images_; }

 private:
  Setup& setup_;
  std::int64_t images_ = 0;
};

struct Candidate {
  fs::path file;
  double accuracy = 0;
};

}  // namespace

Soup greedy_soup(Setup& setup, const fs::path& folder, std::int64_t latest) {
  require(setup.data.validation != nullptr,
          "[training::soup] start = soup chooses by validation accuracy: needs "
          "--validation_fraction > 0");
  SoupEvaluator evaluator(setup);
  std::vector<Candidate> candidates;
  for (const auto& file : snapshot_files(folder, latest))
    candidates.push_back({file, evaluator.accuracy(load_weights(setup, file))});
  // The later one first among equals: it has been trained longer.
  std::ranges::reverse(candidates);
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::accuracy);

  Mean soup;
  Weights best;
  double best_accuracy = 0;
  for (const auto& candidate : candidates) {
    auto weights = load_weights(setup, candidate.file);
    auto with = soup;
    with.add(weights.values);
    weights.values = with.values();
    const bool first = soup.count() == 0;
    const double accuracy = first ? candidate.accuracy : evaluator.accuracy(weights);
    if (!first && accuracy < best_accuracy) continue;
    soup = std::move(with);
    best = std::move(weights);
    best_accuracy = accuracy;
  }
  best.kind = "mean";
  best.needs_recalibration = true;
  best.source =
      formatted("greedy soup of {} of {} snapshots in {}", soup.count(), candidates.size(), folder);
  return {
      .weights = std::move(best), .taken = soup.count(), .images_evaluated = evaluator.images()};
}

}  // namespace dimred::training
