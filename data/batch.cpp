#include "data/batch.h"

#include <algorithm>

namespace dimred::data {

void remove_dropped(Batch& batch) {
  const auto image_size = static_cast<std::size_t>(batch.shape.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == dropped_label) continue;
    if (kept != i) {
      batch.labels[kept] = batch.labels[i];
      batch.indices[kept] = batch.indices[i];
      const auto from = batch.images.begin() + static_cast<std::ptrdiff_t>(i * image_size);
      std::copy(from,
                from + static_cast<std::ptrdiff_t>(image_size),
                batch.images.begin() + static_cast<std::ptrdiff_t>(kept * image_size));
    }
    ++kept;
  }
  batch.labels.resize(kept);
  batch.indices.resize(kept);
  batch.images.resize(kept * image_size);
}

}  // namespace dimred::data
