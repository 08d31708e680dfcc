#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/atomic_file.h"
#include "pca/kernels.h"
#include "pca/source.h"

// The passes over the columns that a fit consists of. All work in blocks of kBlockColumns columns,
// each by one thread, and read a block tile by tile.
namespace dimred::pca {

/// What the passes share.
struct PassPlan {
  const SnapshotSource* source = nullptr;
  const Kernels* kernels = nullptr;
  std::int64_t components = 0;  // k
  std::int64_t threads = 0;
  std::int64_t tile_width = 0;  // columns, a multiple of kPanelColumns, at most kBlockColumns
};

/// `size` rounded up to a multiple of `unit`.
inline std::int64_t padded(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

/// Widest tiles, then most threads (at most `threads`), whose buffers together fit tile_bytes; at
/// least one tile of kPanelColumns columns.
PassPlan plan_passes(const SnapshotSource& source,
                     const Kernels& kernels,
                     std::int64_t components,
                     std::int64_t threads,
                     std::int64_t tile_bytes);

/// G = Wc Wc' [n' x n'], n' = n padded to kernels.row_unit; the lower triangle is valid.
/// Throws std::invalid_argument when a value is not finite (names row and column).
std::vector<double> gram_matrix(const PassPlan& plan);

/// Extremes of a row of P.
struct RowRange {
  float low = 0;
  float high = 0;
};

struct Components {
  std::vector<double> gram;      // P P' [k' x k'] of what was written, lower triangle
  std::vector<RowRange> ranges;  // [k]
};

/// Writes P = C' W behind `header_bytes` of file. combinations: C [n x k''], k'' = k padded to
/// kComponentUnit; its columns sum to 0, so that W needs no centring.
Components write_components(const PassPlan& plan,
                            const std::vector<double>& combinations,
                            std::int64_t header_bytes,
                            checkpoints::AtomicFile& file);

/// Columns that one digest of the sidecar covers.
inline constexpr std::int64_t kDigestColumns = 16384;

/// Negates the rows of P in file whose `flip` is set; returns the digest of each kDigestColumns
/// columns (rows one after another). Cost: one read of P, one write of the flipped rows.
std::vector<std::string> finish_components(const PassPlan& plan,
                                           const std::vector<bool>& flip,
                                           std::int64_t header_bytes,
                                           checkpoints::AtomicFile& file);

}  // namespace dimred::pca
