#pragma once

#include <Eigen/Core>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace dimred::pca {

/// Draws that are equal but for rounding count as equal: a part of what they are compared with.
inline constexpr double rounding_of_draws = 1e-11;

/// A test by random signs. Under the null hypothesis the increments of a trajectory (or blocks of
/// them) are independent and symmetric, so that each may have its sign changed.
struct SignFlips {
  std::int64_t count = 999;  // B
  std::int64_t block = 1;    // increments in a row that share a sign
  std::uint64_t seed = 0;
  /// Another thread sets it to have a test end soon, with std::runtime_error. Null: nobody does.
  const std::atomic<bool>* stop = nullptr;
};

/// Throws std::runtime_error where the test is to end.
void require_not_stopped(const SignFlips& flips);

/// The signs [N x width] of draws first..first + width - 1. Draw 0 is what was measured: all +1.
/// Throws as require_not_stopped().
Eigen::MatrixXd draw_signs(const SignFlips& flips,
                           std::int64_t increments,
                           std::int64_t first,
                           std::int64_t width);

/// The parts of B draws and the measured value together that are at least, and at most, as large as
/// the measured value.
struct Tails {
  double above = 1;
  double below = 1;
  double two_sided() const;
};

/// Draws that are at least, and at most, as large as what was measured, of each of k statistics.
struct TailCounts {
  Eigen::ArrayXd above, below;

  explicit TailCounts(Eigen::Index k) : above(Eigen::ArrayXd::Zero(k)), below(above) {}
  /// drawn [k x width], measured [k].
  void add(const Eigen::ArrayXXd& drawn, const Eigen::ArrayXd& measured);
};

/// Statistics [k x width] of signs [N x width], a column for each draw.
using Statistics = std::function<Eigen::ArrayXXd(const Eigen::MatrixXd& signs)>;

/// The tails of each of the k statistics. Any statistic makes an exact test, also one that is only
/// nearly what its name says. Source: Phipson and Smyth, "Permutation p-values should never be
/// zero", 2010.
std::vector<Tails> tails_by_signs(const SignFlips& flips,
                                  std::int64_t increments,
                                  const Statistics& statistics);

/// P-values of T tests together, adjusted so that any wrong rejection among them is as unlikely as
/// in one test. Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
std::vector<double> adjusted_by_holm(const std::vector<double>& p_values);

}  // namespace dimred::pca
