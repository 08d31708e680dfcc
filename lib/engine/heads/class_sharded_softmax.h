#pragma once

#include <cstdint>

#include "distributed/communicator.h"
#include "models/class_sample.h"
#include "models/margin_softmax.h"

// A softmax whose classes are shared out: features go to all ranks, and no rank ever has more than
// [N x its own classes]. It lives here because models/ knows no
// ranks.
namespace dimred::engine {

/// A rank's classes [begin, end): ceil(C / R) each; the last ranks have fewer, or none.
struct ClassRange {
  std::int64_t classes = 0;  // C, of all ranks
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Throws std::invalid_argument, on every rank alike, for fewer classes than ranks.
ClassRange class_range(std::int64_t classes, int rank, int ranks);

struct ClassShardedResult : models::MarginResult {
  // Classes that weight_gradient has rows of, counted from the range's begin, int64, sorted;
  // undefined: all of the range. Other classes' gradient is zero.
  torch::Tensor sampled;
};

/// The mean loss of the global batch over all classes (or over a sample of them), and its gradients
/// by this rank's features and by its own classes' weights; gradients of features are already
/// summed over ranks. Agrees with models::margin_softmax of all samples and classes, up to the
/// order of sums; every rank gets the same bits of loss.
///   features [b, D] of this rank's samples (b >= 0, may differ between ranks); labels [b] int64 in
///   [0, C); weights [range.size(), D]
/// Every rank calls it. Sends scaling::head_bytes. Throws std::invalid_argument with the same line
/// on every rank for labels, shapes or types that do not fit on any, and for a D, type or number of
/// classes that differs between ranks. A batch without samples has the loss 0 and a gradient of 0,
/// and sends its counts alone.
ClassShardedResult class_sharded_softmax(const torch::Tensor& features,
                                         const torch::Tensor& labels,
                                         const torch::Tensor& weights,
                                         const ClassRange& range,
                                         const models::Margin& margin,
                                         const models::ClassSampling& sampling,
                                         distributed::TensorCommunicator& communicator,
                                         bool with_gradients = true);

}  // namespace dimred::engine
