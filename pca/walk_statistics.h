#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "pca/sign_flips.h"

// What a trajectory x_0 .. x_N shows beside a random walk, from the Gram matrix G [N x N] of its
// increments x_t - x_(t-1) alone: what is seen of it has the Gram matrix F G F'.
namespace dimred::pca {

/// A statistic beside that of a random walk.
struct AgainstWalk {
  double value = 0;
  double walk = 0;      // of as many equal steps in very many dimensions
  double p_value = 1;   // by signs of single increments
  double p_blocks = 1;  // by signs of blocks of them
};

/// The points of a trajectory that a PCA is made of, as sums of increments.
struct PointView {
  Eigen::MatrixXd points;  // F [p x N]
  Eigen::MatrixXd square;  // F'F
  Eigen::VectorXd line;    // F'(t - mean), t = 1..p
};

PointView view_from_base(std::int64_t increments);  // x_t - x_0, t = 1..N
PointView view_centred(std::int64_t increments);    // x_t - mean, t = 0..N
/// Means of `window` snapshots in a row, of every such window, centred.
PointView view_of_windows(std::int64_t increments, std::int64_t window);

/// How straight one view of a trajectory is: the first principal component's share of the squared
/// norm, and R^2 of a line in time through its coefficients.
struct LineShape {
  /// P-values: the chance of as much or more. NaN where all points are equal; R^2 also where the
  /// component has the same coefficient at each.
  AgainstWalk pc1, r2;
};

/// Both kinds of signs, and what they are drawn for.
struct WalkNull {
  SignFlips increments, blocks;
};

/// Throws std::runtime_error when LAPACK fails. Cost: some 50 B N^2.
LineShape line_shape(const Eigen::MatrixXd& gram, const PointView& view, const WalkNull& null);

/// How the directions of increments go together. Increments that are zero are left out, so that the
/// ones beside them are neighbours. NaN where too few move.
struct Directions {
  double effective_dimension = 0;  // 1 / mean of cos^2 between increments
  std::vector<double> cosines;     // mean between increments 1, 2, ... apart
  double p_neighbours = 1;  // the chance of a mean at lag 1 as large in another order of the same
                            // increments; a constant drift leaves all orders alike
  double neighbours_bound = 0;  // on how much larger that mean is than in any order, at 95 %
};

Directions directions(const Eigen::MatrixXd& gram, std::int64_t lags, const SignFlips& orders);

}  // namespace dimred::pca
