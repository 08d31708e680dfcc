#include "method/sgd.h"

#include <gtest/gtest.h>

#include <Eigen/QR>

#include "method/make_method.h"
#include "tests/method/quadratic_space.h"

namespace dimred::method {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd rows(Eigen::Index k) {
  std::srand(5);  // Eigen's Random draws from rand()
  const MatrixXd q = Eigen::HouseholderQR<MatrixXd>(MatrixXd::Random(6, k)).householderQ();
  return q.leftCols(k).transpose();
}

MethodOptions options_of(MethodKind kind, double rate, double alpha, Decay decay) {
  return {.kind = kind,
          .residual = {.gamma = 0.9, .alpha = alpha},
          .rates = {.learning_rate = rate, .momentum = 0.9},
          .schedule = decay,
          .alpha_schedule = decay};
}

/// PyTorch's rule v <- 0.9 v + g, w <- w - rate v; its velocity does not hold the rate.
TEST(Sgd, WithoutASubspaceIsMomentumSgdWithTheRateThatFalls) {
  QuadraticSpace space(six_curvatures(), first_axes(0));
  const auto method = make_method(options_of(MethodKind::sgd, 0.05, 0, Decay::linear), {});
  VectorXd w = VectorXd::Zero(6), v = w;
  for (int i = 0; i < 10; ++i) {
    method->step(space, i / 10.0);
    v = 0.9 * v + six_curvatures().cwiseProduct((w.array() - 1).matrix());
    w -= 0.05 * (1 - i / 10.0) * v;
  }
  EXPECT_LT((space.w - w).norm(), 1e-13);
}

TEST(Sgd, InASubspaceIsSgdOfTheProjectedGradient) {
  const auto p = rows(2);
  QuadraticSpace space(six_curvatures(), p);
  const auto method =
      make_method(options_of(MethodKind::psgd, 0.1, 0, Decay::constant), space.block_sizes());
  VectorXd w = VectorXd::Zero(6), v = w;
  for (int i = 0; i < 20; ++i) {
    method->step(space, 0);
    const VectorXd g = six_curvatures().cwiseProduct((w.array() - 1).matrix());
    v = 0.9 * v + p.transpose() * (p * g);  // P'P g, as DLDR's train_psgd.py
    w -= 0.1 * v;
  }
  EXPECT_LT((space.w - w).norm(), 1e-13);
  EXPECT_EQ(space.m, VectorXd::Zero(6));
}

TEST(Sgd, WithTheResidualAtTheSameRateIsSgdInAllWeights) {
  QuadraticSpace inside(six_curvatures(), rows(3)), whole(six_curvatures(), first_axes(0));
  const auto method =
      make_method(options_of(MethodKind::psgd, 0.05, 0.05, Decay::cosine), inside.block_sizes());
  const auto plain = make_method(options_of(MethodKind::sgd, 0.05, 0, Decay::cosine), {});
  for (int i = 0; i < 20; ++i) {
    method->step(inside, i / 20.0);
    plain->step(whole, i / 20.0);
  }
  EXPECT_LT((inside.w - whole.w).norm(), 1e-12);
}

TEST(Sgd, InAllWeightsTakesNoSubspace) {
  const std::vector<Eigen::Index> blocks = {2};
  EXPECT_THROW(make_method({.kind = MethodKind::sgd}, blocks), std::invalid_argument);
}

TEST(DecayFactor, FallsAsItsNameSays) {
  EXPECT_EQ(DecayFactor(Decay::constant)(1), 1);
  EXPECT_EQ(DecayFactor(Decay::linear)(0.25), 0.75);
  EXPECT_NEAR(DecayFactor(Decay::cosine)(0.5), 0.5, 1e-15);
  EXPECT_EQ(DecayFactor(Decay::cosine)(1), 0);
  EXPECT_EQ(DecayFactor(Decay::step)(0.49), 1);
  EXPECT_NEAR(DecayFactor(Decay::step)(0.5), 0.1, 1e-15);
  EXPECT_NEAR(DecayFactor(Decay::step)(0.75), 0.01, 1e-15);
  EXPECT_EQ(DecayFactor(Decay::step, 0.75)(0.74), 1);  // DLDR's P-SGD: 30 of 40 epochs, 50 never
  EXPECT_NEAR(DecayFactor(Decay::step, 0.75)(0.99), 0.1, 1e-15);
}

}  // namespace
}  // namespace dimred::method
