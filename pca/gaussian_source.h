#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pca/source.h"

namespace dimred::pca {

/// Rows of independent normal values, each a pure function of (seed, row, column): Box-Muller on
/// Philox, rounded to odd multiples of 2^-11 (so that none is 0 and a lone column has a direction).
/// Products are then whole multiples of 2^-22, and their sums over columns exact in float64 up to
/// M = 2^31: a Gram matrix of such rows has the same bits in any order of adding.
class GaussianSource final : public SnapshotSource {
 public:
  GaussianSource(std::int64_t rows, std::int64_t columns, std::uint64_t seed);

  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override;
  /// One Philox gives four rows of a column.
  void read_tile(std::int64_t begin,
                 std::int64_t width,
                 float* out,
                 std::int64_t stride) const override;

 private:
  /// Rows 4 group .. 4 group + 3 of a column.
  std::array<float, 4> values(std::int64_t column, std::int64_t group) const;

  std::array<std::uint32_t, 2> key_;
};

}  // namespace dimred::pca
