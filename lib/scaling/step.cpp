#include "scaling/step.h"

#include "scaling/volume.h"

namespace dimred::scaling {
namespace {

std::int64_t doubles(std::int64_t count, std::int64_t ranks) {
  return all_reduce_bytes(8 * count, ranks);
}

/// Loss, correct and samples (training/passes/gradient.cpp).
std::int64_t loss_bytes(const StepShape& step) { return doubles(3, step.ranks); }

/// Bytes that both stages send besides vectors of M: running statistics and loss
/// (training/passes/gradient.cpp), two stop flags (training/signals.cpp).
std::int64_t common_bytes(const StepShape& step) {
  return all_reduce_bytes(step.buffers * step.number_bytes, step.ranks) + loss_bytes(step) +
         doubles(2, step.ranks);
}

/// k + 2 numbers (stage2/step.cpp) and the loss of each trial.
std::int64_t search_bytes(const StepShape& step) {
  return doubles(step.components + 2, step.ranks) + step.trials * loss_bytes(step);
}

}  // namespace

std::int64_t stage1_bytes(const StepShape& step, std::span<const std::int64_t> buckets) {
  std::int64_t bytes = common_bytes(step);
  for (const auto columns : buckets)
    bytes += all_reduce_bytes(columns * step.number_bytes, step.ranks);
  return bytes;
}

std::int64_t stage2_bytes(const StepShape& step, const Share& share) {
  const auto own = share.own_columns * step.number_bytes;
  const auto at_place = share.columns_at_place * step.number_bytes;
  const auto gather =
      all_gather_bytes(own, step.nodes) + all_gather_bytes(at_place, step.ranks / step.nodes);
  return common_bytes(step) + search_bytes(step) +
         reduce_scatter_bytes(step.columns * step.number_bytes, own) + step.gathers * gather;
}

std::int64_t bytes_between_nodes(const StepShape& step, const Share& share) {
  return step.number_bytes * (share.columns_at_place - share.own_columns +
                              step.gathers * all_gather_bytes(share.own_columns, step.nodes));
}

std::int64_t mindspore_bytes(const StepShape& step) {
  // In a broadcast R - 1 ranks receive the vector once, so R of them send R - 1 vectors a rank.
  const auto vector = step.columns * step.number_bytes;
  return common_bytes(step) + search_bytes(step) + all_reduce_bytes(vector, step.ranks) +
         2 * (step.ranks - 1) * vector;
}

std::int64_t pca_sum_bytes(std::int64_t n, std::int64_t k, std::int64_t ranks) {
  return doubles(n * (n + 1) / 2, ranks) + doubles(n, ranks) + doubles(n * n, ranks) +
         doubles(k * (k + 1) / 2, ranks) + doubles(k * ranks, ranks) + doubles(1, ranks) +
         doubles(4, ranks);
}

}  // namespace dimred::scaling
