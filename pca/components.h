#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pca/borders.h"
#include "pca/pass.h"
#include "support/atomic_file.h"
#include "support/communicator.h"

namespace dimred::pca {

/// P row after row, in memory or behind a header in its file.
struct MatrixTarget {
  MatrixShape shape;
  float* memory = nullptr;     // [k, M]; else:
  AtomicFile* file = nullptr;  // outlives this
  Borders* borders = nullptr;  // where several ranks write the file; outlives this

  /// Values of a row from `column` on.
  void read(std::int64_t row, std::int64_t column, std::span<float> values) const;
  void write(std::int64_t row, std::int64_t column, std::span<const float> values) const;
};

/// Digest of a block of columns from those of its k rows: XXH3-128 of their hex digits in order.
std::string block_digest(std::span<const std::string> rows);

struct Components {
  std::vector<double> gram;     // P P' of what was written, lower triangle
  std::vector<float> extremes;  // [k] each row's own entry of largest magnitude, before signs; of
                                // two alike the positive one
  // [own digest blocks x k] each, for a row's part in a block as it lies in the file
  std::vector<char> negated;  // 0 or 1; no bool, as threads write elements side by side
  std::vector<std::string> digests;
};

/// Writes the own columns of P = C' W. combinations: C [n x k''], k'' = k padded to component_unit;
/// for centred rows its columns sum to 0, so that W needs no centring. A piece is negated when the
/// entry of largest magnitude that any thread has met in its row so far is negative: a guess at the
/// final sign, which fix_signs corrects where it was wrong (about a quarter of the file).
Components write_components(const Pass& pass,
                            const std::vector<double>& combinations,
                            const MatrixTarget& matrix);

/// Rows [k] whose entry of largest magnitude, over all ranks, is negative.
std::vector<bool> rows_to_flip(const std::vector<float>& extremes, Communicator& communicator);

/// Makes every piece negated as `flip` [k] says; returns the digest of each own block of
/// columns_per_digest columns (of the own part of it).
std::vector<std::string> fix_signs(const Pass& pass,
                                   const std::vector<bool>& flip,
                                   const Components& found,
                                   const MatrixTarget& matrix);

/// The digest of each own block of columns_per_digest columns as it lies in the file. Cost: one
/// read of the own columns of P.
std::vector<std::string> digests_of_file(const Pass& pass, const MatrixTarget& matrix);

}  // namespace dimred::pca
