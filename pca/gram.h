#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "pca/pass.h"

namespace dimred::pca {

/// The own columns' part of G = Wc Wc' (not centred: W W') [n' x n'], n' = n padded to
/// kernels.row_unit; the lower triangle is valid.
/// Throws std::invalid_argument when a value is not finite (names row and column).
std::vector<double> gram_matrix(const Pass& pass);

/// The Gram matrix of the centred snapshots, [n, n] float64, as a file of its own: whatever an
/// analysis wants of the snapshots' geometry (spectra of prefixes, nulls) needs nothing else.
class GramFile {
 public:
  explicit GramFile(std::int64_t n) : n_(n), lower_(static_cast<std::size_t>(n * n)) {}

  /// Adds a part whose lower triangle is part[i * stride + j], j <= i < n.
  void add(std::span<const double> part, std::int64_t stride);

  /// Writes both triangles, atomically. Throws std::runtime_error.
  void write(const std::filesystem::path& npy) const;

 private:
  std::int64_t n_;
  std::vector<double> lower_;
};

}  // namespace dimred::pca
