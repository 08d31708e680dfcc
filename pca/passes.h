#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "layout/shard.h"
#include "pca/kernels.h"
#include "pca/ranks.h"
#include "pca/source.h"

// The passes over a rank's own columns that a fit consists of. All work in blocks of columns, each
// by one thread, and read a block tile by tile.
namespace dimred::pca {

/// Columns that one digest of the sidecar covers, and one thread of the second pass writes.
inline constexpr std::int64_t kDigestColumns = 16384;

class Device;  // pca/device.h

/// What the passes share.
struct PassPlan {
  const SnapshotSource* source = nullptr;
  const Kernels* kernels = nullptr;
  std::int64_t components = 0;  // k
  std::int64_t threads = 0;
  std::int64_t tile_width = 0;   // columns read at a time: kPanelColumns 2^i, up to kBlockColumns
  std::int64_t write_width = 0;  // columns written at a time: tile_width 2^i, up to kDigestColumns
  layout::ColumnRange own;       // this rank's columns, maybe none
  bool centred = true;           // the Gram matrix is that of the centred snapshots
  std::shared_ptr<Device> device;  // null: this processor
  std::int64_t device_slots = 0;   // tiles of kDigestColumns columns under way there

  /// Blocks of `width` columns, kBlockColumns or kDigestColumns, that the own columns lie in:
  /// counted from column 0 whatever the rank, so that only the first and the last may be cut.
  std::int64_t blocks(std::int64_t width) const {
    return own.size() == 0 ? 0 : (own.end - 1) / width - own.begin / width + 1;
  }
  /// Own columns of block `index`.
  layout::ColumnRange block(std::int64_t index, std::int64_t width) const {
    const std::int64_t begin = (own.begin / width + index) * width;
    return {std::max(begin, own.begin), std::min(begin + width, own.end)};
  }
};

/// `size` rounded up to a multiple of `unit`.
inline std::int64_t padded(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

/// A rank's share of M columns: contiguous, in whole digest blocks, even to within one block; the
/// ranks beyond the number of blocks have none.
layout::ColumnRange own_range(const Ranks& ranks, std::int64_t columns);

/// Widest tiles, then most threads (at most `threads`), whose buffers together fit tile_bytes; at
/// least one tile of kPanelColumns columns.
PassPlan plan_passes(const SnapshotSource& source,
                     const Kernels& kernels,
                     std::int64_t components,
                     std::int64_t threads,
                     std::int64_t tile_bytes,
                     const layout::ColumnRange& own);

/// `plan` for those of its own columns that lie in `columns`, with tiles no wider than they need.
PassPlan plan_within(PassPlan plan, const layout::ColumnRange& columns);

/// The own columns' part of G = Wc Wc' (not centred: W W') [n' x n'], n' = n padded to
/// kernels.row_unit; the lower triangle is valid.
/// Throws std::invalid_argument when a value is not finite (names row and column).
std::vector<double> gram_matrix(const PassPlan& plan);

/// Throws for the first value of a tile [n x width] that is not finite, `stride` apart.
void require_finite(const SnapshotSource& source,
                    const float* tile,
                    std::int64_t stride,
                    std::int64_t begin,
                    std::int64_t width);

/// Digest of a block of columns from those of its k rows: XXH3-128 of their hex digits in order.
std::string block_digest(std::span<const std::string> rows);

/// Extremes of a row of P, before signs.
struct RowRange {
  float low = 0;
  float high = 0;
  bool negative() const { return high < -low; }  // its entry of largest magnitude
};

/// One row of P within one digest block, as it lies in the file.
struct Piece {
  bool negated = false;
  std::string digest;
};

struct Components {
  std::vector<double> gram;      // P P' [k' x k'] of what was written, lower triangle
  std::vector<RowRange> ranges;  // [k]
  std::vector<Piece> pieces;     // [own digest blocks x k]
};

/// Writes the own columns of P = C' W behind `header_bytes` of file. combinations: C [n x k''], k''
/// = k padded to kComponentUnit; for centred rows its columns sum to 0, so that W needs no
/// centring. A piece is
/// negated when the entry of largest magnitude that any thread has met in its row so far is
/// negative: a guess at the final sign, which settle_signs corrects where it was wrong (about a
/// quarter of the file).
Components write_components(const PassPlan& plan,
                            const std::vector<double>& combinations,
                            std::int64_t header_bytes,
                            checkpoints::AtomicFile& file);

/// Rows [k] whose entry of largest magnitude, over all ranks, is negative.
std::vector<bool> rows_to_flip(std::vector<RowRange> ranges, const Ranks& ranks);

/// Makes every piece negated as `flip` [k] says; returns the digest of each own block of
/// kDigestColumns columns (of the own part of it).
std::vector<std::string> settle_signs(const PassPlan& plan,
                                      const std::vector<bool>& flip,
                                      std::int64_t header_bytes,
                                      Components components,
                                      checkpoints::AtomicFile& file);

/// The digest of each own block of kDigestColumns columns as it lies in the file. Cost: one read of
/// the own columns of P.
std::vector<std::string> digests_of_file(const PassPlan& plan,
                                         std::int64_t header_bytes,
                                         checkpoints::AtomicFile& file);

}  // namespace dimred::pca
