#include "method/inverse_hessian.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "method/line_search.h"

namespace dimred::method {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// One k x k block that begins as `start`.
InverseHessian whole(const MatrixXd& start) {
  const std::vector<Eigen::Index> blocks = {start.rows()};
  InverseHessian h(blocks);
  h.restore({start.data(), static_cast<std::size_t>(start.size())});
  return h;
}
const MatrixXd& values(const InverseHessian& h) { return h.blocks().front(); }

/// A sequence of pairs with s'y > 0 leaves H symmetric positive definite with H y = s for the last.
TEST(Bfgs, KeepsSecantAndPositiveDefiniteness) {
  std::srand(7);  // Eigen's Random draws from rand()
  auto h = whole(MatrixXd::Identity(6, 6));
  for (int i = 0; i < 30; ++i) {
    const VectorXd s = VectorXd::Random(6);
    VectorXd y = s + 0.5 * VectorXd::Random(6);
    if (s.dot(y) <= 0.05) continue;
    ASSERT_EQ(h.update(s, y, bfgs, {}), UpdateOutcome::updated);
    // Rounding of a rank-two update: a few eps times |H| |y|.
    EXPECT_LT((values(h) * y - s).norm(), 1e-12 * (1 + values(h).norm() * y.norm()));
    EXPECT_EQ(values(h), values(h).transpose());
    EXPECT_EQ(Eigen::LLT<MatrixXd>(values(h)).info(), Eigen::Success);
  }
}

TEST(Bfgs, EqualsTheProductForm) {
  std::srand(3);
  const MatrixXd a = MatrixXd::Random(4, 4);
  const MatrixXd start = a * a.transpose() + MatrixXd::Identity(4, 4);
  auto h = whole(start);
  const VectorXd s = VectorXd::Random(4);
  const VectorXd y = s + 0.1 * VectorXd::Random(4);
  const double r = 1 / s.dot(y);
  const MatrixXd left = MatrixXd::Identity(4, 4) - r * s * y.transpose();
  const MatrixXd expected = left * start * left.transpose() + r * s * s.transpose();
  ASSERT_EQ(h.update(s, y, bfgs, {}), UpdateOutcome::updated);
  EXPECT_LT((values(h) - expected).norm(), 1e-13 * expected.norm());  // some tens of eps
}

TEST(Bfgs, FindsTheInverseHessianOfAQuadraticInKSteps) {
  // Exact line searches on a quadratic make k conjugate steps, after which H = A^-1 (Nocedal &
  // Wright 6.4).
  MatrixXd a(3, 3);
  a << 4, 1, 0, 1, 3, 1, 0, 1, 2;
  VectorXd x(3);
  x << 0.3, -1.7, 2.9;
  auto h = whole(MatrixXd::Identity(3, 3));
  for (int i = 0; i < 3; ++i) {
    const VectorXd g = a * x;
    const auto d = h.direction(g).d;
    const VectorXd s = -(g.dot(d) / d.dot(a * d)) * d;
    ASSERT_EQ(h.update(s, a * s, bfgs, {}), UpdateOutcome::updated);
    x += s;
  }
  EXPECT_LT((values(h) - a.inverse()).norm(), 1e-12);
  EXPECT_LT(x.norm(), 1e-12);
}

TEST(Bfgs, SkipsNegativeTinyAndNonFiniteCurvature) {
  const MatrixXd before = 2 * MatrixXd::Identity(2, 2);
  auto h = whole(before);
  const VectorXd s = VectorXd::Unit(2, 0);
  for (const VectorXd& y : {VectorXd(-s),
                            VectorXd(1e-21 * s),
                            VectorXd(VectorXd::Constant(2, NAN)),
                            VectorXd(VectorXd::Constant(2, INFINITY))}) {
    EXPECT_EQ(h.update(s, y, bfgs, {}), UpdateOutcome::skipped);
    EXPECT_EQ(values(h), before);
  }
  VectorXd oblique(2);
  oblique << 0.05, 1;  // cosine 0.05
  EXPECT_EQ(h.update(s, oblique, bfgs, {.relative = 0.1}), UpdateOutcome::skipped);
  EXPECT_EQ(h.update(s, oblique, bfgs, {.relative = 0.01}), UpdateOutcome::updated);
}

/// Unlike BFGS it needs no line search: any k independent steps do (Nocedal & Wright, theorem 6.1).
TEST(Sr1, FindsTheInverseHessianOfAQuadraticFromAnyIndependentSteps) {
  MatrixXd a(3, 3), steps(3, 3);
  a << 4, 1, 0, 1, 3, 1, 0, 1, 2;
  steps << 1, 0, 2, 0, 5, 1, 3, 0, 0.5;
  auto h = whole(MatrixXd::Identity(3, 3));
  for (int i = 0; i < 3; ++i) {
    const VectorXd s = steps.col(i);
    ASSERT_EQ(h.update(s, a * s, sr1, {}), UpdateOutcome::updated);
    for (int j = 0; j <= i; ++j)  // the earlier pairs' secant equations still hold
      EXPECT_LT((values(h) * a * steps.col(j) - steps.col(j)).norm(), 1e-12);
  }
  EXPECT_LT((values(h) - a.inverse()).norm(), 1e-12);
}

TEST(Sr1, BecomesIndefiniteAndThenIsReset) {
  auto h = whole(MatrixXd::Identity(2, 2));
  const Eigen::Vector2d s(1, 0), y(0.5, 2), r = s - y;  // |r|^2 = 4.25, r'y = -3.75
  ASSERT_EQ(h.update(s, y, sr1, {}), UpdateOutcome::updated);
  EXPECT_NEAR(r.dot(values(h) * r) / 4.25, 1 - 4.25 / 3.75, 1e-14);
  EXPECT_TRUE(h.direction(r).reset);
  EXPECT_EQ(values(h), MatrixXd::Identity(2, 2));
}

TEST(Sr1, SkipsAPairWhoseDenominatorIsTiny) {
  const MatrixXd before = 2 * MatrixXd::Identity(2, 2);
  auto h = whole(before);
  const VectorXd y = VectorXd::Unit(2, 0);
  const Eigen::Vector2d known(2, 0);          // H y = s already: r = 0
  const Eigen::Vector2d across(2, 1);         // r = (0, 1) is orthogonal to y
  const Eigen::Vector2d nearly(2 + 9e-9, 1);  // cosine 9e-9
  for (const auto& s : {known, across, nearly}) {
    EXPECT_EQ(h.update(s, y, sr1, {}), UpdateOutcome::skipped);
    EXPECT_EQ(values(h), before);
  }
  EXPECT_EQ(h.update(Eigen::Vector2d(2 + 2e-8, 1), y, sr1, {}), UpdateOutcome::updated);
  EXPECT_EQ(h.update(-known, y, sr1, {}), UpdateOutcome::skipped);  // s'y < 0, as every rule
}

TEST(Direction, ResetsAnIndefiniteInverseHessian) {
  auto h = whole(-MatrixXd::Identity(2, 2));
  const VectorXd g = VectorXd::Ones(2);
  const auto result = h.direction(g);
  EXPECT_TRUE(result.reset);
  EXPECT_EQ(result.d, -g);
  EXPECT_EQ(result.slope, -2);
  EXPECT_EQ(values(h), MatrixXd::Identity(2, 2));
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
  auto h = whole(MatrixXd::Identity(2, 2));
  VectorXd g = gradient(x);
  for (int i = 0; i < 200 && g.norm() > 1e-9; ++i) {
    const auto [d, slope, reset] = h.direction(g);
    const auto search = armijo([&, d = d](double t) { return f(x + t * d); },
                               f(x),
                               slope,
                               {.contraction = 0.5, .sufficient_decrease = 1e-4, .trials = 40});
    ASSERT_EQ(search.outcome, SearchOutcome::accepted) << "step " << i;
    const VectorXd s = search.step_size * d;
    x += s;
    const VectorXd next = gradient(x);
    h.update(s, next - g, bfgs, {});
    g = next;
    ASSERT_TRUE(x.allFinite() && values(h).allFinite());
  }
  EXPECT_NEAR(x[0], 1, 1e-8);
  EXPECT_NEAR(x[1], 1, 1e-8);
}

TEST(PowellDamping, MakesTheCurvatureAFifthOfTheModels) {
  const Eigen::Vector2d s(1, 2), b_s(3, 1);  // s'Bs = 5
  const VectorXd good = powell_damped(s, Eigen::Vector2d(1, 0), b_s);
  EXPECT_EQ(good, VectorXd(Eigen::Vector2d(1, 0)));  // s'y = 1 = 0.2 * 5
  const VectorXd damped = powell_damped(s, Eigen::Vector2d(-4, -1), b_s);
  EXPECT_NEAR(s.dot(damped), 1, 1e-12);
}

TEST(InverseHessian, KeepsItsNumbers) {
  const std::vector<Eigen::Index> blocks = {2, 3};
  InverseHessian h(blocks), other(blocks);
  h.update(VectorXd::Ones(5), VectorXd::LinSpaced(5, 1, 2), bfgs, {});
  EXPECT_NE(h, other);
  other.restore(h.values());
  EXPECT_EQ(h, other);
  EXPECT_THROW(other.restore(std::vector<double>(12)), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::method
