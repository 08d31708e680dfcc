#include "data/batch.h"

#include <algorithm>
#include <utility>

#include "support/errors.h"

namespace dimred::data {

std::int64_t steps_per_epoch(std::int64_t size, std::int64_t batch_size, bool drop_last) {
  require(size >= 0, "[data] the number of samples must not be negative, received {}", size);
  require(batch_size >= 1, "[data] needs batch_size >= 1, received {}", batch_size);
  const bool partial = size % batch_size != 0 && !drop_last;
  return size / batch_size + (partial ? 1 : 0);
}

BatchPart batch_part(
    std::int64_t size, std::int64_t batch_size, std::int64_t step, int rank, int ranks) {
  const std::int64_t first = step * batch_size;
  const std::int64_t global = std::min(batch_size, size - first);
  return {first + rank * global / ranks, first + (rank + 1) * global / ranks, global};
}

void remove_dropped(Batch& batch) {
  const std::size_t image_size = batch.shape.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == dropped_label) continue;
    if (kept != i) {
      batch.labels[kept] = batch.labels[i];
      batch.indices[kept] = batch.indices[i];
      const auto from = batch.images.begin() + i * image_size;
      std::copy(from, from + image_size, batch.images.begin() + kept * image_size);
    }
    ++kept;
  }
  batch.labels.resize(kept);
  batch.indices.resize(kept);
  batch.images.resize(kept * image_size);
}

BatchPool::BatchPool(std::shared_ptr<std::pmr::memory_resource> resource)
    : resource_(std::move(resource)) {}

/// A vector of another memory resource would be copied by an assignment, so it is constructed.
Batch BatchPool::take() {
  const std::lock_guard lock(mutex_);
  auto* resource = resource_ ? resource_.get() : std::pmr::get_default_resource();
  if (spare_.empty()) return Batch{.images = std::pmr::vector<float>(resource)};
  Batch batch(std::move(spare_.back()));
  spare_.pop_back();
  return batch;
}

void BatchPool::give(Batch batch, std::size_t most) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() < most) spare_.push_back(std::move(batch));
}

}  // namespace dimred::data
