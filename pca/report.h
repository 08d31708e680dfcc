#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pca/kinds.h"
#include "support/communicator.h"

namespace dimred::pca {

/// The same on every rank.
struct FitReport {
  Kind kind = Kind::pca;
  std::uint64_t seed = 0;
  std::int64_t rows = 0, columns = 0, components = 0;  // n, M, k
  std::vector<std::int64_t> block_components;    // of each block: rows that are not zero, at most k
  std::vector<double> singular_values;           // [k] of the centred W; span: of W; random: zeros.
                                                 // Layers: row j's variances of all blocks summed
  std::vector<double> explained_variance_ratio;  // [k], of the total variance (span: of |W|^2)
  std::vector<double> random_walk_ratio;         // [k], the null at the same n; span, random: zeros
  double orthonormality_error = 0;  // max |P P' - I|, measured in float64, over all blocks
  bool reorthonormalized = false;   // a second pass was needed (steep spectrum), by some block
  std::int64_t bytes_read = 0;      // of W, by all ranks, digests included
  double seconds_gram = 0, seconds_components = 0;  // first pass; second pass, signs and digests
  double seconds_fsync = 0, seconds_total = 0;      // rank 0's, as those above; with fsync
  std::string kernels;                              // "avx512", "avx2" or "baseline"; rank 0's
  std::string peak_memory;                          // filled by the caller that wants it
  std::vector<std::string> left_out;  // of the first snapshot, as training state; rank 0's
};

/// The same report on every rank: bytes_read the sum of theirs, times and kernels rank 0's.
void share_report(FitReport& report, Communicator& communicator);

/// Explained variance ratio [count] of an n-step random walk in many dimensions:
/// lambda_i ~ 1 / (2 (1 - cos(pi i / n))), i = 1..n-1.
/// Source: Antognini & Sohl-Dickstein, 1806.08805.
std::vector<double> random_walk_ratio(std::int64_t snapshots, std::int64_t count);

/// The report as lines for a person (no newline at the end): n x M -> k x M, explained variance
/// beside the null, time without fsync, bytes.
std::string describe(const FitReport& report);

}  // namespace dimred::pca
