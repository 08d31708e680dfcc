#pragma once

#include <cstdint>
#include <span>

#include "distributed/volume.h"

// Bytes that one rank sends in one step, exactly as they are counted, from what a step sums and
// gathers.
namespace dimred::bytes_sent {

struct StepShape {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;         // with as many ranks each
  std::int64_t columns = 0;       // of the flat vector in memory, padding included
  std::int64_t components = 32;   // k
  std::int64_t trials = 1;        // that the line search made
  std::int64_t gathers = 1;       // of a direction: robust and alpha = 0 one, other presets two
  std::int64_t buffers = 0;       // numbers of running statistics averaged over ranks at each step
  std::int64_t number_bytes = 4;  // of a weight, gradient or running statistic
};

inline std::int64_t doubles(std::int64_t count, std::int64_t ranks) {
  return volume::all_reduce_bytes(8 * count, ranks);
}

/// Returns the bytes of loss, correct and samples (engine/passes/gradient.cpp).
inline std::int64_t loss_bytes(const StepShape& step) { return doubles(3, step.ranks); }

/// Returns the bytes that both stages send besides vectors of M: running statistics and loss
/// (engine/passes/gradient.cpp), two stop flags (run/signals.cpp).
inline std::int64_t common_bytes(const StepShape& step) {
  return volume::all_reduce_bytes(step.buffers * step.number_bytes, step.ranks) + loss_bytes(step) +
         doubles(2, step.ranks);
}

/// Returns the bytes of the ring all-reduce of the gradient, bucket by bucket [columns of each],
/// and of the step's scalars.
inline std::int64_t stage1_bytes(const StepShape& step, std::span<const std::int64_t> buckets) {
  std::int64_t bytes = common_bytes(step);
  for (const auto columns : buckets)
    bytes += volume::all_reduce_bytes(columns * step.number_bytes, step.ranks);
  return bytes;
}

/// The share of a rank, and the share of all ranks at its place on their nodes together.
struct Share {
  std::int64_t own_columns = 0;
  std::int64_t columns_at_place = 0;
};

/// Returns the bytes of the reduce-scatter of the gradient, the all-gather of the direction, k + 2
/// numbers (stage2/step.cpp), the step's scalars, and the loss of each trial. A step without a
/// search (its loss is not finite) sends less.
inline std::int64_t stage2_bytes(const StepShape& step, const Share& share) {
  const auto own = share.own_columns * step.number_bytes;
  const auto at_place = share.columns_at_place * step.number_bytes;
  const auto gather = volume::all_gather_bytes(own, step.nodes) +
                      volume::all_gather_bytes(at_place, step.ranks / step.nodes);
  const auto search = doubles(step.components + 2, step.ranks) + step.trials * loss_bytes(step);
  return common_bytes(step) + search +
         volume::reduce_scatter_bytes(step.columns * step.number_bytes, own) +
         step.gathers * gather;
}

}  // namespace dimred::bytes_sent
