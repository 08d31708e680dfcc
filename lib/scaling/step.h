#pragma once

#include <cstdint>
#include <span>

// Bytes that one rank sends in one step, exactly as they are counted, from what a step sums and
// gathers.
namespace dimred::scaling {

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

/// Ring all-reduce of the gradient, bucket by bucket [columns of each], and the step's scalars.
std::int64_t stage1_bytes(const StepShape& step, std::span<const std::int64_t> buckets);

/// What a rank owns, and what it and the ranks at its place on the other nodes own together.
struct Share {
  std::int64_t own_columns = 0;
  std::int64_t columns_at_place = 0;
};

/// Reduce-scatter of the gradient, all-gather of the direction, k + 2 numbers, the step's scalars,
/// and the loss of each trial. A step without a search (its loss is not finite) sends less.
std::int64_t stage2_bytes(const StepShape& step, const Share& share);

/// The bytes of vectors of M that go to other nodes. Over the ranks of a node this is what any
/// exchange has to send: each column once for each other node.
std::int64_t bytes_between_nodes(const StepShape& step, const Share& share);

/// MindSpore's scheme for the same step: all-reduce of the gradient and 2 R broadcasts of a whole
/// vector, each rank its part of P'd and of P'g_k; the average of the ranks. Small numbers as ours.
/// Source: MindSpore boost/dim_reduce.py.
std::int64_t mindspore_bytes(const StepShape& step);

/// Sums of doubles over ranks in one fit that needs no second orthonormalisation: the Gram matrix
/// (a triangle), eigenvalues, eigenvectors, P P' (a triangle), the rows' extremes, bytes read, four
/// durations. Without the texts: names, layouts, agreement, digests.
std::int64_t pca_sum_bytes(std::int64_t snapshots, std::int64_t components, std::int64_t ranks);

}  // namespace dimred::scaling
