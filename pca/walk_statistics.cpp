#include "pca/walk_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "pca/dense.h"
#include "support/random.h"

namespace dimred::pca {
namespace {

using Eigen::ArrayXXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Steps of the power iteration in each draw, from a straight line on, which is nearly a walk's
/// first component; its second eigenvalue is a quarter to a ninth of the first.
constexpr int power_steps = 5;

constexpr double upper_normal = 1.645;  // 95 % of a normal distribution lie below
constexpr double most_cosine = 0.95;    // beyond, a walk may be as straight as a line

constexpr auto undefined = std::numeric_limits<double>::quiet_NaN();
constexpr AgainstWalk no_statistic{undefined, undefined, undefined, undefined};

/// x_0 .. x_N relative to x_0, [N + 1 x N].
MatrixXd path(std::int64_t increments) {
  MatrixXd path = MatrixXd::Zero(increments + 1, increments);
  path.bottomRows(increments).triangularView<Eigen::Lower>().setOnes();
  return path;
}

MatrixXd centred(const MatrixXd& points) { return points.rowwise() - points.colwise().mean(); }

/// t - mean, t = 1..points.
VectorXd times(Eigen::Index points) {
  const double half = 0.5 * static_cast<double>(points - 1);
  return VectorXd::LinSpaced(points, -half, half);
}

PointView view_of(MatrixXd points) {
  MatrixXd square = points.transpose() * points;
  VectorXd line = points.transpose() * times(points.rows());
  return {std::move(points), std::move(square), std::move(line)};
}

/// Share and R^2 of the first component; R^2 is NaN where all points have one coefficient but for
/// rounding, as behind a single step.
std::pair<double, double> first_component(const MatrixXd& gram, const PointView& view) {
  const MatrixXd k = view.points * gram * view.points.transpose();
  const auto p = k.rows();
  const auto pairs = eigenpairs(lower_of({k.data(), static_cast<std::size_t>(k.size())}, p, p), p);
  const VectorXd first = Eigen::Map<const VectorXd>(pairs.vectors.data(), p);
  const VectorXd spread = first.array() - first.mean();
  const double share = pairs.values[0] / k.trace();
  constexpr double rounding = 1e-20;
  if (spread.squaredNorm() <= rounding * first.squaredNorm()) return {share, undefined};
  const auto line = times(p);
  const double along = spread.dot(line);
  return {share, along * along / (spread.squaredNorm() * line.squaredNorm())};
}

/// The sum of squares at or below which all points are equal but for rounding, as the means of
/// windows as long as a cycle are: a share of it is 0 / 0. The products that it sums have `terms`.
double one_point(const MatrixXd& terms) {
  constexpr double rounding = 1e-10;
  return rounding * terms.cwiseAbs().sum();
}

/// Computes [2 x draws] by some power steps for K = F sGs F', in terms of u with F u = the vector:
/// sGs F'F has the eigenvalues of K.
ArrayXXd nearly_first_components(const MatrixXd& gram, const PointView& view, const MatrixXd& s) {
  MatrixXd u = MatrixXd::Ones(s.rows(), s.cols());  // F u is the line in time
  MatrixXd c = transposed_product(view.square, u);  // which is symmetric, as the Gram matrix is
  ArrayXXd shape(2, s.cols());
  for (int step = 0; step < power_steps; ++step) {
    const MatrixXd next = s.cwiseProduct(transposed_product(gram, s.cwiseProduct(c)));
    shape.row(0) =
        c.cwiseProduct(next).colwise().sum().array() / c.cwiseProduct(u).colwise().sum().array();
    u = next;
    c = transposed_product(view.square, u);
  }
  const MatrixXd terms = gram.cwiseProduct(view.square);
  Eigen::ArrayXd traces = s.cwiseProduct(transposed_product(terms, s)).colwise().sum();
  traces = (traces > one_point(terms)).select(traces, undefined);
  shape.row(0) /= traces.transpose();
  const auto p = static_cast<double>(view.points.rows());
  const Eigen::ArrayXXd sums = view.points.colwise().sum() * u;
  const Eigen::ArrayXXd along = view.line.transpose() * u;
  const Eigen::ArrayXXd norms = u.cwiseProduct(c).colwise().sum().array() - sums.square() / p;
  shape.row(1) = along.square() / (norms * times(view.points.rows()).squaredNorm());
  shape.row(1) = traces.transpose().isNaN().select(undefined, shape.row(1));
  return shape;
}

/// Cosines between the increments that move, in their order; 0 on the diagonal.
MatrixXd cosines_of_moving(const MatrixXd& gram) {
  std::vector<Eigen::Index> moving;
  for (Eigen::Index i = 0; i < gram.rows(); ++i)
    if (gram(i, i) > 0) moving.push_back(i);
  MatrixXd cosines = gram(moving, moving);
  const VectorXd inverse = cosines.diagonal().array().sqrt().inverse();
  cosines = inverse.asDiagonal() * cosines * inverse.asDiagonal();
  cosines.diagonal().setZero();
  return cosines;
}

}  // namespace

PointView view_from_base(std::int64_t increments) {
  return view_of(path(increments).bottomRows(increments));
}

PointView view_centred(std::int64_t increments) { return view_of(centred(path(increments))); }

PointView view_of_windows(std::int64_t increments, std::int64_t window) {
  const auto snapshots = path(increments);
  MatrixXd means(increments + 2 - window, increments);
  for (Eigen::Index i = 0; i < means.rows(); ++i) {
    means.row(i) = snapshots.middleRows(i, window).colwise().mean();
  }
  return view_of(centred(means));
}

LineShape line_shape(const MatrixXd& gram, const PointView& view, const WalkNull& null) {
  const auto n = gram.rows();
  const MatrixXd scaled = gram / gram.trace();
  const MatrixXd terms = scaled.cwiseProduct(view.square);
  if (terms.sum() <= one_point(terms)) return {no_statistic, no_statistic};
  const auto measured = first_component(scaled, view);
  const auto walk = first_component(MatrixXd::Identity(n, n), view);
  const auto of_signs = [&](const MatrixXd& s) { return nearly_first_components(scaled, view, s); };
  const auto singles = tails_by_signs(null.increments, n, of_signs);
  const auto blocks = tails_by_signs(null.blocks, n, of_signs);
  LineShape shape{{measured.first, walk.first, singles[0].above, blocks[0].above},
                  {measured.second, walk.second, singles[1].above, blocks[1].above}};
  if (std::isnan(measured.second)) shape.r2 = no_statistic;
  return shape;
}

Directions directions(const MatrixXd& gram, std::int64_t lags, const SignFlips& orders) {
  MatrixXd cosines = cosines_of_moving(gram);
  const auto n = cosines.rows();
  const auto pairs = static_cast<double>(n * (n - 1));
  Directions found{.effective_dimension = pairs / cosines.squaredNorm()};
  for (std::int64_t lag = 1; lag <= std::min<std::int64_t>(lags, gram.rows() - 1); ++lag)
    found.cosines.push_back(lag < n ? cosines.diagonal(-lag).mean() : undefined);
  if (n < 2) {
    found.p_neighbours = undefined;
    return found;
  }
  const double measured = cosines.diagonal(-1).sum();
  const double equal = rounding_of_draws * static_cast<double>(n - 1);
  std::vector<Eigen::Index> order(n);
  std::int64_t as_large = 1;
  Eigen::ArrayXd sums(orders.count);
  for (std::int64_t draw = 0; draw < orders.count; ++draw) {
    require_not_stopped(orders);
    std::iota(order.begin(), order.end(), Eigen::Index{0});
    RandomStream stream(orders.seed, RandomPurpose::signs, 0, draw);
    for (std::uint32_t i = n - 1; i > 0; --i) std::swap(order[i], order[stream.below(i + 1)]);
    double sum = 0;
    for (Eigen::Index i = 1; i < n; ++i) sum += cosines(order[i], order[i - 1]);
    if (sum >= measured - equal) ++as_large;
    sums[draw] = sum;
  }
  found.p_neighbours = static_cast<double>(as_large) / static_cast<double>(orders.count + 1);
  const double spread = std::sqrt((sums - sums.mean()).square().mean());
  const double beyond =
      (measured - sums.mean() + upper_normal * spread) / static_cast<double>(n - 1);
  found.neighbours_bound = std::clamp(beyond, 0.0, most_cosine);
  return found;
}

}  // namespace dimred::pca
