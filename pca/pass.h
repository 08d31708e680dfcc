#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "layout/shard.h"
#include "pca/kernels.h"
#include "pca/source.h"
#include "support/ceiling.h"

namespace dimred::pca {

/// Columns that one digest of the sidecar covers, and one thread of the second pass writes.
inline constexpr std::int64_t columns_per_digest = 16384;

/// A pass over a rank's own columns, one of several in a fit: in blocks of columns, each by one
/// thread, which reads it tile by tile.
struct Pass {
  const SnapshotSource* rows = nullptr;
  const Kernels* kernels = nullptr;
  std::int64_t components = 0;  // k
  std::int64_t threads = 0;
  std::int64_t tile_width =
      0;  // columns read at a time: panel_columns 2^i, up to columns_per_block
  std::int64_t write_width =
      0;                    // columns written at a time: tile_width 2^i, up to columns_per_digest
  layout::ColumnRange own;  // this rank's columns, maybe none
  bool centred = true;      // the Gram matrix is that of the centred snapshots
  std::span<double> mean = {};  // [M] receives the rows' with the Gram matrix; empty: not wanted

  /// Blocks of `width` columns, columns_per_block or columns_per_digest, that the own columns lie
  /// in: counted from column 0 whatever the rank, so that only the first and the last may be cut.
  std::int64_t blocks(std::int64_t width) const {
    return own.size() == 0 ? 0 : (own.end - 1) / width - own.begin / width + 1;
  }
  /// Own columns of block `index`.
  layout::ColumnRange block(std::int64_t index, std::int64_t width) const {
    const auto begin = (own.begin / width + index) * width;
    return {std::max(begin, own.begin), std::min(begin + width, own.end)};
  }
};

/// `size` rounded up to a multiple of `unit`.
inline std::int64_t padded(std::int64_t size, std::int64_t unit) {
  return ceiling(size, unit) * unit;
}

/// A rank's share of M columns: contiguous, in whole digest blocks, even to within one block; the
/// ranks beyond the number of blocks have none.
layout::ColumnRange own_range(int rank, int ranks, std::int64_t columns);

/// Sets widths and threads: widest tiles, then most threads (at most pass.threads), whose buffers
/// together fit tile_bytes; at least one tile of panel_columns columns.
void fit_tiles(Pass& pass, std::int64_t tile_bytes);

/// Bytes of the values that the pass reads.
std::int64_t bytes_of(const Pass& pass);

/// `pass` over those of its own columns that lie in `columns`, with tiles no wider than they need.
Pass within(Pass pass, const layout::ColumnRange& columns);

}  // namespace dimred::pca
