#include "checkpoints/verbs/reading.h"

#include <algorithm>
#include <vector>

#include "support/parallel.h"

namespace dimred::verbs {

std::int64_t Reading::thread_count() const { return threads > 0 ? threads : available_threads(); }

void Reading::count(std::int64_t bytes) const {
  add_done(progress, bytes);
  require_running(progress, "[inspect] stopped");
}

std::vector<TensorBlock> blocks_of(const checkpoints::StoredTensor& tensor) {
  std::vector<TensorBlock> blocks;
  for (std::int64_t at = 0; at < tensor.bytes(); at += block_bytes)
    blocks.push_back({at / tensor.unit(), std::min(block_bytes, tensor.bytes() - at)});
  return blocks;
}

std::span<std::byte> block_buffer(std::int64_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (std::ssize(buffer) < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

}  // namespace dimred::verbs
