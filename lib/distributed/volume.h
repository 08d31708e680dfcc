#pragma once

#include <cstdint>

#include "support/ceiling.h"

// Bytes that one rank sends, by the algorithms that really run.
namespace dimred::volume {

/// Ring all-reduce of `bytes`: every rank sends each of its R parts but one, twice. With NCCL the
/// same, unless the switch sums.
constexpr std::int64_t all_reduce_bytes(std::int64_t bytes, std::int64_t ranks) {
  return 2 * bytes - ceiling(2 * bytes, ranks);  // 2 bytes (R - 1) / R, of small numbers only
}

/// Reduce-scatter as an exchange: the others' columns go to their owners.
constexpr std::int64_t reduce_scatter_bytes(std::int64_t full, std::int64_t own) {
  return full - own;
}

/// All-gather as an exchange: the own columns go to every other rank of a group.
constexpr std::int64_t all_gather_bytes(std::int64_t own, std::int64_t ranks) {
  return own * (ranks - 1);
}

/// Binomial-tree broadcast (Gloo's): the ranks reached double each round, and the rank `from_root`
/// places after the root sends to this many others.
constexpr int broadcast_children(int from_root, int ranks) {
  int children = 0;
  for (int reached = 1; reached < ranks; reached *= 2) {
    if (from_root < reached && from_root + reached < ranks) ++children;
  }
  return children;
}

}  // namespace dimred::volume
