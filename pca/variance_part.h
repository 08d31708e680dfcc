#pragma once

#include <cstdint>
#include <span>

namespace dimred::pca {

/// The eigenvalues, largest first, of a Gram matrix of n rows that stand for a direction: those
/// above n 2.2e-16 of the largest, and above `part` of it.
std::int64_t count_directions(std::span<const double> values, double part = 0);

/// The fewest leading eigenvalues whose share of the sum of all is above `part`, in (0, 1), as
/// scikit-learn's PCA counts them: at least 1, at most the directions (or 1, where there is none).
std::int64_t count_for_part(std::span<const double> values, double part);

}  // namespace dimred::pca
