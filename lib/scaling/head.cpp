#include "scaling/head.h"

#include <algorithm>

#include "scaling/volume.h"
#include "support/ceiling.h"

namespace dimred::scaling {
namespace {

HeadMemory memory_of(const HeadShape& head, std::int64_t classes, std::int64_t samples) {
  const bool sampled = head.sampling_ratio < 1;
  const auto drawn = std::min<std::int64_t>(
      classes, ceil_fraction(head.sampling_ratio, classes) + (sampled ? samples : 0));
  const auto row = head.embedding * head.number_bytes;
  return {.weights = (1 + head.optimizer_vectors) * classes * row + (sampled ? drawn * row : 0),
          .gradient = drawn * row,
          .logits = samples * drawn * head.number_bytes,
          .features = 2 * samples * row};
}

}  // namespace

std::int64_t head_bytes(const HeadShape& head, std::int64_t own, bool with_gradients) {
  const auto row = head.embedding * head.number_bytes;
  const auto doubles = [&](std::int64_t count) { return all_reduce_bytes(8 * count, head.ranks); };
  return doubles(2 * head.ranks) + all_gather_bytes(own * row, head.ranks) +
         all_gather_bytes(8 * own, head.ranks) + doubles(2 * head.batch) + doubles(head.batch + 1) +
         (with_gradients ? reduce_scatter_bytes(head.batch * row, own * row) : 0);
}

std::int64_t replicated_head_bytes(const HeadShape& head) {
  return all_reduce_bytes(head.classes * head.embedding * head.number_bytes, head.ranks);
}

HeadMemory head_memory(const HeadShape& head) {
  return memory_of(head, ceiling(head.classes, head.ranks), head.batch);
}

HeadMemory replicated_head_memory(const HeadShape& head) {
  return memory_of(head, head.classes, ceiling(head.batch, head.ranks));
}

}  // namespace dimred::scaling
