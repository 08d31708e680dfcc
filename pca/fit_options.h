#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "pca/kernels.h"
#include "pca/kinds.h"
#include "pca/snapshot_source.h"

namespace dimred::pca {

struct FitOptions {
  std::int64_t components = 32;  // k >= 1; pca, shuffled: n - 1 >= k; span: n >= k, and 0 is n;
                                 // random: M >= k
  bool fewer_allowed = false;    // pca, shuffled: k is at most n - 1, where n - 1 < components
  double variance = 0;    // pca, shuffled of the whole: in (0, 1), k is the fewest components
                          // with more than this part of it, instead; 0: not asked for
  Kind kind = Kind::pca;  // what the rows are
  Blocks blocks = Blocks::whole;  // layers: k rows for each layer, P block-diagonal
  std::uint64_t seed = 0;         // of random and shuffled
  SnapshotRange snapshots;        // those used; n is their number
  std::filesystem::path gram;     // also write their Gram matrix here (.npy); empty: do not
  std::span<double> mean = {};    // [M] receives theirs, of this rank's columns; empty: not wanted;
                                  // not of kind random, which does not read them
  std::int64_t threads = 0;       // 0: all cores this process may use
  std::int64_t tile_bytes = 32 << 20;  // memory of all tiles together, >= 1 MiB; at least one tile
                                       // of n x 512 values is used
  KernelSet kernels = KernelSet::automatic;  // for tests and comparison
};

}  // namespace dimred::pca
