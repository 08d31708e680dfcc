#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"
#include "pca/sidecar.h"
#include "support/communicator.h"

namespace dimred::pca {

/// How far P P' may be from I before load_basis refuses a matrix, whichever way it came to be so.
/// Rounding to bfloat16 (relative errors e of at most 2^-8, of rms 2^-9.2) moves a product p'q by
/// sum p_i q_i (e_i + e'_i): some 2^-8 / sqrt(M) for rows spread over M columns (measured: 6.5e-5
/// at M = 93322), 2^-7 at most, which rows that rest on a few columns come near: such a whole
/// matrix is refused, while blocks of a few columns are what layers have, and pass in bfloat16.
inline constexpr double basis_tolerance = 1e-3;

/// How P lies in memory; files are float32 either way.
enum class BasisDtype { float32, bfloat16 };

/// Columns of a shard that belong to one block of a block-diagonal P.
struct BasisBlock {
  std::int64_t index = 0;  // of the block, 0..B-1 in memory order, the same on every rank
  std::int64_t begin = 0;  // columns [begin, end) of the shard's, padding included
  std::int64_t end = 0;
  bool operator==(const BasisBlock&) const = default;
};

/// Cost of a fit, equal on every rank.
struct FitReport {
  std::int64_t bytes_read = 0;                      // of W, by all ranks, digests included
  double seconds_gram = 0, seconds_components = 0;  // first pass; second pass, signs and digests
  double seconds_fsync = 0, seconds_total = 0;      // rank 0's, as those above; with fsync
  std::string peak_memory;                          // filled by the caller that wants it
  std::vector<std::string> left_out;  // of the first snapshot, as training state; rank 0's
  std::vector<std::string> remarks;   // on the snapshots that were left out; rank 0's
};

/// A basis P: what a fit returns and a load gives. A loaded basis holds a rank's columns of P, in
/// memory order; a fit's has written them to a file or an array and holds none. Each of its B
/// blocks of columns is a basis of its own: k orthonormal rows (or fewer, the others zero). So the
/// subspace has k B directions; projecting onto it gives k numbers a block, g_k[b] = P[:, b] g[b],
/// back-projecting P[:, b]' d[b]. B = 1 is the usual P.
struct Basis {
  Sidecar header;                  // of all of P; loaded: of the k rows that are loaded
  FitReport report;                // of the fit that made it
  std::vector<BasisBlock> blocks;  // own ones, by begin, without gaps; ranks share the blocks that
                                   // their borders cut; empty when the rank has no columns
  std::int64_t columns = 0;        // memory columns of the shard, padding included (zeros)
  BasisDtype dtype = BasisDtype::float32;
  std::vector<float> values;           // [k x columns], row-major; empty in bfloat16
  std::vector<std::uint16_t> bfloats;  // the same as bits of bfloat16; empty in float32

  std::int64_t block_count() const { return std::max<std::int64_t>(1, std::ssize(header.blocks)); }
};

/// The sidecar of a matrix, checked against its header; its shape alone where there is none. For
/// `inspect` and error texts.
Sidecar read_basis_header(const std::filesystem::path& npy);

/// The layout of P's columns; one vector where the header has none.
layout::Layout layout_of(const Sidecar& header);

struct LoadOptions {
  std::int64_t components = 0;         // > 0: the number of first rows that are loaded; 0: all
  double tolerance = basis_tolerance;  // of |P P' - I|; 0: not checked
  BasisDtype dtype = BasisDtype::float32;
};

/// Loads the columns of `shard` of a k x M .npy (both orders, float32 or float64) into memory
/// order. The columns are those of the layout, in file order; where a sidecar stands beside it, its
/// layout may hold the same parameters in another order (safetensors files are sorted by type and
/// name), and each is found by its name. Checked: shape against the layout, the sidecar's names and
/// shapes, block digests where the sidecar has them, finiteness, orthonormality (P P' is summed
/// over the ranks, whose shards together are all columns; one rank alone checks only a shard of all
/// columns). In bfloat16 each value is rounded to nearest, ties to even, on its way into the shard,
/// and orthonormality is that of the rounded rows. A sidecar's blocks must each hold whole
/// parameters; orthonormality is then that of each block. An exception of one rank is thrown by
/// all. Throws std::invalid_argument for another model's matrix or rows that are not orthonormal
/// (says the error measured, and where it looks so, that a block-diagonal matrix has lost its
/// sidecar: without it P P' has the number of blocks in its diagonal), std::runtime_error for a
/// damaged file. Cost: one read of the shard's columns (with a sidecar, of the whole digest blocks
/// of 16384 columns they lie in); memory: the shard and 2 digest blocks.
Basis load_basis(const std::filesystem::path& npy,
                 const layout::Layout& layout,
                 const layout::Shard& shard,
                 const LoadOptions& options = {},
                 Communicator& communicator = alone());

}  // namespace dimred::pca
