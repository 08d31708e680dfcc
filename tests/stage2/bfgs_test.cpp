#include "stage2/bfgs.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "stage2/armijo.h"

namespace dimred::stage2 {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// A sequence of pairs with s'y > 0 leaves H symmetric positive definite with H y = s for the last.
TEST(Bfgs, KeepsSecantAndPositiveDefiniteness) {
  std::srand(7);  // Eigen's Random draws from rand()
  MatrixXd h = MatrixXd::Identity(6, 6);
  for (int i = 0; i < 30; ++i) {
    const VectorXd s = VectorXd::Random(6);
    VectorXd y = s + 0.5 * VectorXd::Random(6);
    if (s.dot(y) <= 0.05) continue;
    ASSERT_EQ(update(h, s, y, {}), UpdateOutcome::updated);
    // Rounding of a rank-two update: a few eps times |H| |y|.
    EXPECT_LT((h * y - s).norm(), 1e-12 * (1 + h.norm() * y.norm()));
    EXPECT_EQ(h, h.transpose());
    EXPECT_EQ(Eigen::LLT<MatrixXd>(h).info(), Eigen::Success);
  }
}

TEST(Bfgs, EqualsTheProductForm) {
  std::srand(3);
  const MatrixXd a = MatrixXd::Random(4, 4);
  MatrixXd h = a * a.transpose() + MatrixXd::Identity(4, 4);
  const VectorXd s = VectorXd::Random(4);
  const VectorXd y = s + 0.1 * VectorXd::Random(4);
  const double r = 1 / s.dot(y);
  const MatrixXd left = MatrixXd::Identity(4, 4) - r * s * y.transpose();
  const MatrixXd expected = left * h * left.transpose() + r * s * s.transpose();
  ASSERT_EQ(update(h, s, y, {}), UpdateOutcome::updated);
  EXPECT_LT((h - expected).norm(), 1e-13 * expected.norm());  // some tens of eps
}

TEST(Bfgs, FindsTheInverseHessianOfAQuadraticInKSteps) {
  // Exact line searches on a quadratic make k conjugate steps, after which H = A^-1 (Nocedal &
  // Wright 6.4).
  MatrixXd a(3, 3);
  a << 4, 1, 0, 1, 3, 1, 0, 1, 2;
  VectorXd x(3);
  x << 0.3, -1.7, 2.9;
  MatrixXd h = MatrixXd::Identity(3, 3);
  for (int i = 0; i < 3; ++i) {
    const VectorXd g = a * x;
    const auto d = direction(h, g).d;
    const VectorXd s = -(g.dot(d) / d.dot(a * d)) * d;
    ASSERT_EQ(update(h, s, a * s, {}), UpdateOutcome::updated);
    x += s;
  }
  EXPECT_LT((h - a.inverse()).norm(), 1e-12);
  EXPECT_LT(x.norm(), 1e-12);
}

TEST(Bfgs, SkipsNegativeTinyAndNonFiniteCurvature) {
  const MatrixXd before = 2 * MatrixXd::Identity(2, 2);
  MatrixXd h = before;
  const VectorXd s = VectorXd::Unit(2, 0);
  for (const VectorXd& y : {VectorXd(-s),
                            VectorXd(1e-21 * s),
                            VectorXd(VectorXd::Constant(2, NAN)),
                            VectorXd(VectorXd::Constant(2, INFINITY))}) {
    EXPECT_EQ(update(h, s, y, {}), UpdateOutcome::skipped);
    EXPECT_EQ(h, before);
  }
  VectorXd oblique(2);
  oblique << 0.05, 1;  // cosine .05
  EXPECT_EQ(update(h, s, oblique, {.relative_curvature_floor = 0.1}), UpdateOutcome::skipped);
  EXPECT_EQ(update(h, s, oblique, {.relative_curvature_floor = 0.01}), UpdateOutcome::updated);
}

TEST(Direction, ResetsAnIndefiniteInverseHessian) {
  MatrixXd h = -MatrixXd::Identity(2, 2);
  const VectorXd g = VectorXd::Ones(2);
  const auto result = direction(h, g);
  EXPECT_TRUE(result.reset);
  EXPECT_EQ(result.d, -g);
  EXPECT_EQ(result.slope, -2);
  EXPECT_EQ(h, MatrixXd::Identity(2, 2));
}

/// Rosenbrock from (-1.2, 1) with Armijo alone: curvature is not guaranteed, other libraries reach
/// NaN.
TEST(Bfgs, RosenbrockWithArmijoAloneStaysFiniteAndConverges) {
  const auto f = [](const VectorXd& x) {
    return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
  };
  const auto gradient = [](const VectorXd& x) {
    VectorXd g(2);
    g << -400 * x[0] * (x[1] - x[0] * x[0]) - 2 * (1 - x[0]), 200 * (x[1] - x[0] * x[0]);
    return g;
  };
  VectorXd x(2);
  x << -1.2, 1;
  MatrixXd h = MatrixXd::Identity(2, 2);
  VectorXd g = gradient(x);
  for (int i = 0; i < 200 && g.norm() > 1e-9; ++i) {
    const auto [d, slope, reset] = direction(h, g);
    const auto search = armijo([&, d = d](double t) { return f(x + t * d); },
                               f(x),
                               slope,
                               {.rho = 0.5, .sigma = 1e-4, .trials = 40});
    ASSERT_EQ(search.outcome, SearchOutcome::accepted) << "step " << i;
    const VectorXd s = search.step_size * d;
    x += s;
    const VectorXd next = gradient(x);
    update(h, s, next - g, {});
    g = next;
    ASSERT_TRUE(x.allFinite() && h.allFinite());
  }
  EXPECT_NEAR(x[0], 1, 1e-8);
  EXPECT_NEAR(x[1], 1, 1e-8);
}

}  // namespace
}  // namespace dimred::stage2
