#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/atomic_file.h"

// A snapshot's weights are verified block by block, so that whoever reads some of them, in whatever
// order and on whatever rank, compares these with their digests in the same read. The digests lie
// in the part of the file that its own digest covers.
namespace dimred::checkpoints {

/// Weights in a block: those of the narrowest tile that pca::fit reads, so that its tiles are whole
/// blocks. The digests are 0.4 % of the file.
constexpr std::int64_t weights_per_digest = 512;

/// XXH3-64 of each block; the last block may be shorter.
std::vector<std::uint64_t> weight_digests(std::span<const float> weights);

/// The place of contiguous float32 weights and of their digests in a file.
struct DigestedWeights {
  std::int64_t offset = 0;  // bytes from the start of the file
  std::int64_t count = 0;
  std::int64_t digests = 0;  // bytes from the start of the file
};

/// Weights [first, first + out.size()), verified. Reads each block that has a wanted weight whole.
/// Throws std::runtime_error naming the file and the weights of a block that has another digest.
void read_digested(const InputFile& file,
                   const DigestedWeights& weights,
                   std::int64_t first,
                   std::span<float> out);

/// Reads all weights once, to verify them. Throws as read_digested.
void verify_weights(const InputFile& file, const DigestedWeights& weights);

}  // namespace dimred::checkpoints
