#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pca/basis.h"
#include "support/communicator.h"

namespace dimred::pca {

/// Makes the report equal on every rank: bytes_read the sum of theirs, times and kernels rank 0's.
void share_report(Basis& basis, Communicator& communicator);

/// Explained variance ratio [count] of an n-step random walk in many dimensions:
/// lambda_i ~ 1 / (2 (1 - cos(pi i / n))), i = 1..n-1.
/// Source: Antognini & Sohl-Dickstein, 1806.08805.
std::vector<double> random_walk_ratio(std::int64_t snapshots, std::int64_t count);

/// A fit as lines for a person (no newline at the end): n x M -> k x M, explained variance beside
/// the null, time without fsync, bytes.
std::string describe(const Basis& basis);

}  // namespace dimred::pca
