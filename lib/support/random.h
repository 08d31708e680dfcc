#pragma once

#include <array>
#include <cstdint>

// Counter-based random numbers: every draw is a pure function of its key, so that sample order and
// augmentation are the same for any number of threads, ranks or restarts.
namespace dimred {

/// The purpose of a stream; streams of different purposes are independent.
enum class RandomPurpose : std::uint32_t {
  order = 1,
  augmentation = 2,
  initialization = 3,
  forward = 4,
  split = 5,
  subset = 7,    // which samples stand for all; 6 was label noise's, until 8b694755
  basis = 8,     // random rows of a projection matrix
  shuffle = 9,   // of its columns
  shards = 10,   // the order of files
  window = 11,   // of samples within a part of that order
  padding = 12,  // which samples are repeated to make shares even
  classes = 13,  // which of them a softmax runs over
  signs = 14,    // of a trajectory's increments, and their order
  mock = 20,     // pixels without a file
};

/// Philox4x32-10: four 32-bit words from a 128-bit counter and a 64-bit key.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// The stream of draws that belongs to (seed, purpose, epoch, index); 2^34 of them. Its key is
/// Philox of (purpose, epoch) under seed; its counter (block of four draws, index).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed,
               RandomPurpose purpose,
               std::uint64_t epoch = 0,
               std::uint64_t index = 0);

  std::uint32_t next();
  /// Uniform in [0, bound), without modulo bias (Lemire, "Fast random integer generation in an
  /// interval", 2019). Throws std::invalid_argument unless bound >= 1.
  std::uint32_t below(std::uint32_t bound);
  /// Uniform in [0, 1), a multiple of 2^-32.
  double uniform() { return next() * 0x1p-32; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

/// Image of `position` under a pseudo-random permutation of [0, size) chosen by (seed, purpose,
/// epoch): a 6-round Feistel network over Philox with cycle walking, so any position is found in
/// O(1) expected time (about 7 to 13 Philox) and memory. Throws std::invalid_argument unless
/// position < size.
/// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
std::uint64_t permuted(std::uint64_t position,
                       std::uint64_t size,
                       std::uint64_t seed,
                       RandomPurpose purpose,
                       std::uint64_t epoch);

}  // namespace dimred
