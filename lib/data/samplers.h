#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/order.h"

// Shuffles that read files nearly from beginning to end, for data that does not fit in memory and
// disks that are slow at jumping.
namespace dimred::data {

/// Windowed shuffle: the epoch's files in an order drawn by (seed, epoch), their samples one after
/// another, and each run of `window` of these permuted (the last run is shorter). So at most
/// `window` samples + one file's are between a sample and its neighbour on the disk. A pure
/// function of (seed, epoch, position), unlike TensorFlow's shuffle(buffer_size), whose order is
/// the history of a buffer. Cost: the files' order once an epoch, then a search among them and one
/// permutation. Throws std::invalid_argument unless window >= 1 and the sizes are >= 0 with a sum
/// >= 1.
std::shared_ptr<const Sampler> windowed_shuffle(std::vector<std::int64_t> shard_sizes,
                                                std::int64_t window);

/// Files shared over ranks: rank r's part of every global batch comes from rank r's share of the
/// data, indices [r share, (r + 1) share), permuted by (seed, epoch, r). Gives up what global order
/// has: another number of ranks sees other batches. Size = ranks * share; for a loader that gives
/// rank r the positions [r count / ranks, (r + 1) count / ranks) of a batch. Throws
/// std::invalid_argument unless share >= 1 and global_batch is a multiple of ranks >= 1.
std::shared_ptr<const Sampler> file_shares(std::int64_t share,
                                           int ranks,
                                           std::int64_t global_batch);

/// The indices behind file_shares: rank r gets files r, r + ranks, r + 2 ranks, ..., all their
/// samples in order, and repeats of random ones of them (each at most once more than another),
/// until it has as many as the largest share has; rank after rank. Throws std::invalid_argument for
/// fewer non-empty files than ranks, naming both.
std::vector<std::int64_t> even_shares(const std::vector<std::int64_t>& shard_sizes,
                                      int ranks,
                                      std::uint64_t seed);

}  // namespace dimred::data
