#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"
#include "pca/ranks.h"

namespace dimred::pca {

/// How far P P' may be from I before load_basis refuses a matrix, whichever way it came to be so.
/// Rounding to bfloat16 (relative errors e of at most 2^-8, of rms 2^-9.2) moves a product p'q by
/// sum p_i q_i (e_i + e'_i): some 2^-8 / sqrt(M) for rows spread over M columns (measured: 6.5e-5
/// at M = 93322), 2^-7 at most, which rows that rest on a few columns come near.
inline constexpr double kBasisTolerance = 1e-3;

/// How P lies in memory; files are float32 either way.
enum class BasisDtype { float32, bfloat16 };

/// A rank's columns of P, in memory order.
struct Basis {
  std::int64_t components = 0;  // k
  std::int64_t columns = 0;     // memory columns of the shard, padding included (zeros)
  BasisDtype dtype = BasisDtype::float32;
  std::vector<float> values;           // [k x columns], row-major; empty in bfloat16
  std::vector<std::uint16_t> bfloats;  // the same as bits of bfloat16; empty in float32
  double orthonormality_error = 0;     // max |P P' - I| over all ranks' columns; NaN: not checked
};

struct BasisFile {
  std::int64_t components = 0, columns = 0;  // k, M
  bool fortran_order = false;
  int item_bytes = 4;
  std::string layout_hash;  // of the sidecar; empty without one
  std::vector<double> singular_values, explained_variance_ratio;
};

/// Header and sidecar alone; for `inspect` and error texts.
BasisFile read_basis_header(const std::filesystem::path& npy);

/// Loads the columns of `shard` of a k x M .npy (both orders, float32 or float64) into memory
/// order. The columns are those of the layout, in file order; where a sidecar stands beside it, its
/// layout may hold the same parameters in another order (safetensors files are sorted by type and
/// name), and each is found by its name. Checked: shape against the layout, the sidecar's names and
/// shapes, block digests where the sidecar has them, finiteness, orthonormality (|P P' - I| <=
/// tolerance; pass 0 to skip; P P' is summed over the ranks, whose shards together are all columns;
/// one rank alone checks only a shard of all columns). `components` > 0 takes the first so many
/// rows. In bfloat16 each value is rounded to nearest, ties to even, on its way into the shard, and
/// orthonormality is that of the rounded rows. What one rank throws, all throw.
/// Throws std::invalid_argument for another model's matrix or rows that are not orthonormal (says
/// the error measured), std::runtime_error for a damaged file.
/// Cost: one read of the shard's columns (with a sidecar, of the whole digest blocks of 16384
/// columns they lie in); memory: the shard and 2 digest blocks.
Basis load_basis(const std::filesystem::path& npy,
                 const layout::Layout& layout,
                 const layout::Shard& shard,
                 std::int64_t components = 0,
                 double tolerance = kBasisTolerance,
                 const Ranks& ranks = {},
                 BasisDtype dtype = BasisDtype::float32);

}  // namespace dimred::pca
