#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"
#include "pca/kinds.h"

namespace dimred::pca {

/// The header of a basis: what is known of all of P [k x M] beside its values. <stem>.json beside
/// the matrix holds it; where none stands there, only M and k are known.
struct Sidecar {
  Kind kind = Kind::pca;                         // a file need not say it
  std::vector<layout::ColumnRange> blocks;       // of P, in file order; empty: one of all columns
  std::vector<std::int64_t> block_components;    // [blocks] rows that are not zero, at most k
  std::optional<std::uint64_t> seed;             // of random and shuffled
  std::int64_t snapshots = 0;                    // n; random: 0
  std::int64_t parameters = 0;                   // M
  std::int64_t components = 0;                   // k
  std::vector<double> singular_values;           // [k] of the centred W; span: of W; random: zeros.
                                                 // Layers: row j's variances of all blocks summed
  std::vector<double> explained_variance_ratio;  // [k], of the total variance (span: of |W|^2)
  std::vector<double> random_walk_ratio;         // [k], the null at the same n; span (but from
                                                 // the first snapshot), random: zeros
  double orthonormality_error = 0;  // max |P P' - I| in float64, block by block, where a row of
                                    // zeros is right. Loaded: of the values in memory, over all
                                    // ranks; NaN: not checked
  bool reorthonormalized = false;   // a second pass was needed (steep spectrum), by some block
  std::vector<std::string> snapshot_names;  // [n]
  std::string layout_hash;                  // empty: the snapshots carried none
  std::string layout_json;                  // of layout::to_json; empty with it
  std::int64_t digest_columns = 0;          // columns under one digest; 0: there are none
  std::vector<std::string> digests;         // block_digest of P[:, block]
  std::int64_t threads = 0, tile_bytes = 0;
  std::string kernels;  // "avx512", "avx2" or "baseline"; rank 0's

  bool is_known() const { return digest_columns > 0; }  // more than M and k
};

/// pca_mat.npy -> pca_mat.json.
std::filesystem::path sidecar_path(const std::filesystem::path& npy);

/// The matrix, then its sidecar.
std::vector<std::filesystem::path> pair_of(const std::filesystem::path& npy);

/// Ends with a checksum of itself.
std::string to_json(const Sidecar& sidecar);

/// Throws std::invalid_argument when a file that is none of ours stands there: a fit must not
/// replace it. One of ours may be damaged.
void require_replaceable(const std::filesystem::path& npy);

/// nullopt when no file stands there. Throws std::invalid_argument when it is none of ours,
/// std::runtime_error when it is damaged.
std::optional<Sidecar> read_sidecar(const std::filesystem::path& npy);

}  // namespace dimred::pca
