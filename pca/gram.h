#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "pca/pass.h"
#include "support/atomic_file.h"

namespace dimred::pca {

/// The own columns' part of G = Wc Wc' (not centred: W W'), its lower triangle (see lower_of).
/// Throws std::invalid_argument when a value is not finite (names row and column).
std::vector<double> gram_matrix(const Pass& pass);

/// Writes a Gram matrix [n, n] from its lower triangle, float64. Returns the durable file, which
/// the caller commits. Throws std::runtime_error.
std::unique_ptr<AtomicFile> write_gram(const std::filesystem::path& npy,
                                       std::span<const double> lower,
                                       std::int64_t n);

}  // namespace dimred::pca
