#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoints/checkpoint.h"
#include "support/byte_progress.h"

// Reads of whole checkpoints, with threads, progress and an end before time.
namespace dimred::verbs {

struct Reading {
  std::int64_t threads = 0;          // 0: all cores of this process
  ByteProgress* progress = nullptr;  // nobody looks

  std::int64_t thread_count() const;
  /// Counts bytes that were read. Throws std::runtime_error where the progress says to stop.
  void count(std::int64_t bytes) const;
};

/// The most bytes that are read at once.
inline constexpr std::int64_t block_bytes = std::int64_t{4} << 20;

/// A part of a tensor's bytes.
struct TensorBlock {
  std::int64_t first = 0;  // as TensorReader::read counts
  std::int64_t bytes = 0;
};

/// The blocks of a tensor, in its order.
std::vector<TensorBlock> blocks_of(const checkpoints::StoredTensor& tensor);

/// A buffer of this thread for one block; the next call in the same thread takes it over.
std::span<std::byte> block_buffer(std::int64_t bytes);

}  // namespace dimred::verbs
