#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace dimred::pca {

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
