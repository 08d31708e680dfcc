#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "data/dataset.h"
#include "data/preprocess.h"

namespace dimred::data {

/// A rank's part of one global batch; may be empty when a last batch has fewer samples than ranks.
struct Batch {
  ImageShape shape;
  PixelOrder order = PixelOrder::planes;
  std::pmr::vector<float> images;     // [count x channels x height x width], each image in `order`
  std::vector<std::int64_t> labels;   // [count]
  std::vector<std::int64_t> indices;  // [count] in the dataset
  std::int64_t epoch = 0;
  std::int64_t position = 0;      // of the part's first sample in the epoch's order
  std::int64_t global_count = 0;  // samples of this step over all ranks
  std::int64_t count() const { return labels.size(); }
};

/// Steps of an epoch of `size` samples. Throws std::invalid_argument unless size >= 0 and
/// batch_size >= 1.
std::int64_t steps_per_epoch(std::int64_t size, std::int64_t batch_size, bool drop_last);

/// Positions [begin, end) of an epoch's order: what a rank takes of a step's `global_count`
/// samples.
struct BatchPart {
  std::int64_t begin = 0, end = 0, global_count = 0;
};

/// A rank's part of step `step` of `size` samples in batches of `batch_size` over all ranks: it
/// takes positions [rank count / ranks, (rank + 1) count / ranks) of each, both ends rounded down.
BatchPart batch_part(
    std::int64_t size, std::int64_t batch_size, std::int64_t step, int rank, int ranks);

/// The label of a sample that is to be left out.
constexpr std::int64_t dropped_label = -1;

/// Takes those samples out of a batch; the others move up.
void remove_dropped(Batch& batch);

/// Used batches, whose buffers the next ones take over: of a loader, or of all loaders of a run,
/// for which fresh memory would be mapped, zeroed (and pinned) again in every epoch.
class BatchPool {
 public:
  /// `resource` holds the images; empty: plain memory. The pool must outlive all its batches.
  explicit BatchPool(std::shared_ptr<std::pmr::memory_resource> resource = {});
  /// A used batch, or an empty one.
  Batch take();
  /// Keeps the batch, unless `most` are kept already.
  void give(Batch batch, std::size_t most);

 private:
  std::shared_ptr<std::pmr::memory_resource> resource_;
  std::mutex mutex_;
  std::vector<Batch> spare_;
};

}  // namespace dimred::data
