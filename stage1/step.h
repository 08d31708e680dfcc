#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/input/batches.h"
#include "optimizers/optimizer.h"

namespace dimred::stage1 {

/// A network and what descends on its loss.
struct Descent {
  engine::Setup* setup;
  optimizers::GradientOptions gradient;
  std::vector<optimizers::Segment> segments;
  optimizers::SumOverRanks sum_over_ranks;  // of sharded segments' squares
  std::unique_ptr<optimizers::Optimizer> optimizer;
  optimizers::StepControl control;
  std::optional<engine::RecordedWork> update;  // of the weights; null: it is not recorded
  engine::GradientBuckets buckets;

  Descent(engine::Setup& network,
          const optimizers::OptimizerOptions& options,
          const engine::BucketOptions& bucket_options);
};

/// Loss and gradient of the batch over all ranks, then the optimiser's step `number` (counted from
/// 1). An infinite or NaN loss and an overflowing scaled gradient leave the weights as they are.
engine::BatchResult descend(Descent& descent,
                            const engine::DeviceBatch& batch,
                            double learning_rate,
                            std::int64_t number);

}  // namespace dimred::stage1
