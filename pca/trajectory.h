#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "pca/source.h"
#include "pca/walk_statistics.h"

namespace dimred::pca {

/// The largest B: p-values down to 10^-6 settle any question.
inline constexpr std::int64_t most_flips = 1'000'000;

/// A test rejects by a p-value below it.
inline constexpr double significant_p = 0.05;

struct TrajectoryOptions {
  std::int64_t flips = 999;  // B in 19..most_flips, random signs and orders
  std::int64_t block = 0;    // increments that share a sign in the second test; 0: an eighth of
                             // them, at least 2
  std::int64_t window = 0;   // snapshots in a mean, 2..n - 2; 0: a quarter of them, at least 2
  std::uint64_t seed = 0;    // of signs and orders
  std::int64_t threads = 0;  // 0: all cores this process may use
  /// As SignFlips::stop.
  const std::atomic<bool>* stop = nullptr;
};

/// Verdict on the increments of a trajectory.
enum class Verdict {
  still,           // zero
  random_walk,     // no straighter than independent steps would be
  returning,       // less straight: the steps cancel
  correlated,      // neighbours go together, so that nothing tells momentum from a drift
  unclear,         // straighter, but no more than blocks or momentum may be
  drift,           // straighter than both kinds of signs and momentum explain
  too_few,         // unknown: no straightness could be rejected
  too_few_blocks,  // straighter, also than momentum; blocks of signs could not reject
  all_alike,       // unknown: all signs give the same straightness
};

/// The statistics of all weights, or of one tensor's.
struct Trajectory {
  std::string name;          // of the tensor
  std::int64_t weights = 0;  // M
  AgainstWalk straightness;
  double p_adjusted = 1;  // straightness.p_value, of a tensor with Holm's factor for all that move
  double p_momentum = 1;  // the chance of this straightness where neighbours correlate as much as
                          // the increments leave possible
  std::int64_t moving_increments = 0;
  std::int64_t moving_blocks = 0;
  bool all_alike = false;     // Straightness::all_alike
  double least_p = 0;         // that p_adjusted can be, by flips and increments that move
  double least_p_blocks = 0;  // that straightness.p_blocks can be
  LineShape base, centred, windows;
  Directions directions;  // effective_dimension: at most M
  Verdict verdict = Verdict::still;
};

struct TrajectoryReport {
  std::int64_t snapshots = 0;     // n; the first is the base
  TrajectoryOptions options;      // with what stood for 0
  std::int64_t tensor_flips = 0;  // of the straightness of tensors
  Trajectory whole;
  std::vector<Trajectory> tensors;    // in file order; none where the snapshots know no names
  std::vector<std::string> left_out;  // of the first snapshot, as training state
  std::vector<std::string> remarks;   // on the snapshots that were left out
};

/// The part of a trajectory of n >= 4 snapshots that a random walk does not show. One pass over W,
/// then n x n matrices: some 150 B n^2 operations and 12 n^2 bytes for all weights and for each
/// tensor, and max(32 MiB, 64 n^2 bytes) for each thread. The straightness of T moving tensors is
/// tested with at least 40 T + 1 signs (200 T + 1 up to T = 500), so that an adjusted p-value can
/// be below 0.05. A test that cannot reject, for too few flips or snapshots or as all signs give
/// the same, never gives `random_walk` or `unclear`. The null hypothesis of the p-values is
/// independent, symmetric increments, and momentum alone breaks it: where neighbours correlate, the
/// verdict is never `drift`. Throws std::invalid_argument for fewer snapshots, options out of
/// range, equal snapshots or a value that is not finite; std::runtime_error on I/O failure, or
/// stopped.
TrajectoryReport measure_trajectory(const SnapshotSource& source,
                                    const TrajectoryOptions& options = {});

}  // namespace dimred::pca
