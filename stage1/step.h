#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "optimizers/optimizer.h"
#include "training/passes/step.h"

namespace dimred::stage1 {

/// A network and what descends on its loss.
struct Descent {
  training::Setup* setup;
  optimizers::GradientOptions gradient;
  std::vector<optimizers::Segment> segments;
  optimizers::SumOverRanks sum_over_ranks;  // of sharded segments' squares
  std::unique_ptr<optimizers::Optimizer> optimizer;
  optimizers::StepControl control;
  std::optional<training::RecordedWork> update;  // of the weights; null: it is not recorded
  training::GradientBuckets buckets;

  Descent(training::Setup& network,
          const optimizers::OptimizerOptions& options,
          const training::BucketOptions& bucket_options);
};

/// Loss and gradient of the batch over all ranks, then the optimiser's step `number` (counted from
/// 1). An infinite or NaN loss and an overflowing scaled gradient leave the weights as they are.
training::BatchResult descend(Descent& descent,
                              const training::Step& step,
                              double learning_rate,
                              std::int64_t number);

}  // namespace dimred::stage1
