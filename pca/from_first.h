#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pca/source.h"

namespace dimred::pca {

/// Rows 1 to n - 1 of `source`, which must outlive it, less row 0, subtracted in float64: the span
/// of these (Kind::span) is the uncentred PCA from the first snapshot. A row's name is its own and
/// the first one's. Throws std::invalid_argument for fewer than 2 rows.
std::unique_ptr<SnapshotSource> from_first(const SnapshotSource& source);

/// The shares [count] of the leading components, from its first point, of a random walk of `steps`
/// steps in many dimensions: lambda_j ~ 1 / sin^2(pi (2 j - 1) / (4 steps + 2)).
/// Throws std::invalid_argument unless 1 <= count <= steps.
std::vector<double> random_walk_from_first(std::int64_t steps, std::int64_t count);

}  // namespace dimred::pca
