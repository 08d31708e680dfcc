#include "checkpoints/weight_digests.h"

#include <algorithm>
#include <array>

#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

/// Blocks that are read and verified at a time, so that the processor's cache still holds them.
constexpr std::int64_t blocks_at_a_time = 128;

/// Reads whole blocks from weight `first` on, at most blocks_at_a_time.
void read_blocks(const InputFile& file,
                 const DigestedWeights& weights,
                 std::int64_t first,
                 std::span<float> out) {
  file.read(weights.offset + first * std::int64_t{sizeof(float)}, std::as_writable_bytes(out));
  std::array<std::uint64_t, blocks_at_a_time> expected;
  const auto count = ceiling(std::ssize(out), weights_per_digest);
  const auto digests = std::span(expected).first(count);
  const auto block = first / weights_per_digest;
  file.read(weights.digests + block * std::int64_t{sizeof(std::uint64_t)},
            std::as_writable_bytes(digests));
  const auto found = weight_digests(out);
  const auto bad = std::ranges::mismatch(found, digests).in1 - found.begin();
  require_environment(bad == count,
                      "[snapshot] '{}' is damaged: weights {} to {} do not match their digest",
                      file.path(),
                      (block + bad) * weights_per_digest,
                      std::min((block + bad + 1) * weights_per_digest, weights.count) - 1);
}

/// A part of one block.
void read_part(const InputFile& file,
               const DigestedWeights& weights,
               std::int64_t first,
               std::span<float> out) {
  std::array<float, weights_per_digest> block;
  const auto begin = first / weights_per_digest * weights_per_digest;
  const auto size = std::min(weights_per_digest, weights.count - begin);
  read_blocks(file, weights, begin, std::span(block).first(size));
  std::ranges::copy(std::span(block).subspan(first - begin, out.size()), out.begin());
}

}  // namespace

std::vector<std::uint64_t> weight_digests(std::span<const float> weights) {
  std::vector<std::uint64_t> digests;
  digests.reserve(ceiling(std::ssize(weights), weights_per_digest));
  while (!weights.empty()) {
    const auto size = std::min<std::size_t>(weights_per_digest, weights.size());
    digests.push_back(digest64(weights.first(size)));
    weights = weights.subspan(size);
  }
  return digests;
}

void read_digested(const InputFile& file,
                   const DigestedWeights& weights,
                   std::int64_t first,
                   std::span<float> out) {
  while (!out.empty()) {
    const auto left = std::min(weights_per_digest - first % weights_per_digest,
                               weights.count - first);  // of the block
    auto size = std::min(left, std::ssize(out));
    if (first % weights_per_digest != 0 || size < left) {
      read_part(file, weights, first, out.first(size));
    } else {
      size = std::min(blocks_at_a_time * weights_per_digest, std::ssize(out));
      if (first + size < weights.count) size -= size % weights_per_digest;
      read_blocks(file, weights, first, out.first(size));
    }
    first += size;
    out = out.subspan(size);
  }
}

void verify_weights(const InputFile& file, const DigestedWeights& weights) {
  std::vector<float> part(blocks_at_a_time * weights_per_digest);
  for (std::int64_t first = 0; first < weights.count;) {
    const auto size = std::min(std::ssize(part), weights.count - first);
    read_digested(file, weights, first, std::span(part).first(size));
    first += size;
  }
}

}  // namespace dimred::checkpoints
