#include "stage2/step.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dimred::stage2 {
namespace {

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 with the first two coordinates as the subspace.
struct Quadratic {
  torch::Tensor curvature = torch::tensor({4.0F, 1.0F, 2.0F, 3.0F});
  torch::Tensor weights = torch::zeros({4});
  torch::Tensor basis = torch::eye(4).narrow(0, 0, 2).contiguous();
  std::unique_ptr<distributed::Communicator> communicator = distributed::single_rank();
  distributed::Columns columns;

  double loss() const { return (curvature * (weights - 1).square()).sum().item<double>() / 2; }
  torch::Tensor gradient() const { return curvature * (weights - 1); }
  BatchLoss batch() {
    return {.loss = [this] { return loss(); },
            .gradient = gradient(),
            .evaluate = [this] { return loss(); }};
  }
  Place place() {
    return {.subspace = basis,
            .communicator = *communicator,
            .columns = columns,
            .own_columns = weights};
  }
  StepReport take(StepState& state, const StepOptions& options) {
    return step(place(), batch(), weights, state, options);
  }
};

TEST(Step, MovesOnlyInsideTheSubspaceWithoutResidual) {
  Quadratic problem;
  auto state = initial_state(problem.place());
  auto options = preset("robust").step;
  options.residual.alpha = 0;
  for (int i = 0; i < 30; ++i) problem.take(state, options);
  // The float32 loss of 2.5 resolves 2e-7, hence the weights sqrt(2e-7) = 5e-4.
  EXPECT_NEAR(problem.weights[0].item<float>(), 1, 5e-4);
  EXPECT_NEAR(problem.weights[1].item<float>(), 1, 5e-4);
  EXPECT_EQ(problem.weights[2].item<float>(), 0);
  EXPECT_EQ(problem.weights[3].item<float>(), 0);
}

TEST(Step, ResidualMomentumMovesWhatLiesOutside) {
  Quadratic problem;
  auto state = initial_state(problem.place());
  auto options = preset("robust").step;
  options.residual.alpha = 0.1;
  for (int i = 0; i < 200; ++i) problem.take(state, options);
  EXPECT_LT((problem.weights - 1).abs().max().item<float>(), 1e-3);
}

TEST(Step, IsTheSameWithTheSameBasisInBfloat16) {
  Quadratic wide;
  Quadratic narrow;
  narrow.basis = narrow.basis.to(torch::kBFloat16);  // zeros and ones: exact
  auto state = initial_state(wide.place());
  auto other = initial_state(narrow.place());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(wide.take(state, preset("robust").step).loss,
              narrow.take(other, preset("robust").step).loss);
  }
  EXPECT_TRUE(torch::equal(wide.weights, narrow.weights));
  EXPECT_EQ(other.residual_momentum.scalar_type(), torch::kFloat32);
}

TEST(Step, ReportsTheLossAndSlopeOfTheSearchedDirection) {
  Quadratic problem;
  auto state = initial_state(problem.place());
  auto options = preset("robust").step;
  options.residual.alpha = 0.02;
  const auto report = problem.take(state, options);
  // g = (-4, -1, -2, -3), d = (4, 1), m = (0, 0, -2, -3): slope = -17 - .02 * 13.
  EXPECT_NEAR(report.slope, -17.26, 1e-5);
  EXPECT_NEAR(report.loss, 5, 1e-6);
  EXPECT_NEAR(report.residual_norm, std::sqrt(13), 1e-5);
  EXPECT_EQ(report.search.loss, problem.loss());
}

TEST(Step, FailedSearchLeavesWeightsAndInverseHessianAlone) {
  Quadratic problem;
  auto state = initial_state(problem.place());
  auto options = preset("robust").step;
  problem.take(state, options);
  const auto weights = problem.weights.clone();
  const auto inverse_hessians = state.inverse_hessians;
  auto worse = problem.batch();
  worse.evaluate = [start = worse.loss()] { return start + 1; };
  const auto report = step(problem.place(), worse, problem.weights, state, options);
  EXPECT_EQ(report.search.outcome, SearchOutcome::no_decrease);
  EXPECT_EQ(report.step_size, 0);
  EXPECT_TRUE(torch::equal(problem.weights, weights));
  EXPECT_EQ(state.inverse_hessians, inverse_hessians);
  EXPECT_EQ(problem.take(state, options).update, UpdateOutcome::none);
}

TEST(Step, NonFiniteGradientChangesNothing) {
  Quadratic problem;
  auto state = initial_state(problem.place());
  const auto options = preset("robust").step;
  problem.take(state, options);
  const auto weights = problem.weights.clone();
  const auto momentum = state.residual_momentum.clone();
  auto broken = problem.batch();
  broken.gradient[3] = NAN;
  const auto report = step(problem.place(), broken, problem.weights, state, options);
  EXPECT_TRUE(report.not_finite);
  EXPECT_TRUE(torch::equal(problem.weights, weights));
  EXPECT_TRUE(torch::equal(state.residual_momentum, momentum));
}

TEST(Presets, HaveThePublishedConstants) {
  const auto& latest = preset("mindspore-latest").step;
  EXPECT_EQ(latest.search.rho, 0.55);
  EXPECT_EQ(latest.search.sigma, 0.4);
  EXPECT_EQ(latest.search.trials, 2);
  EXPECT_EQ(latest.residual.gamma, 0.9);
  EXPECT_EQ(latest.residual.alpha, 0.001);
  EXPECT_EQ(preset("mindspore-first").step.search.trials, 3);
  EXPECT_EQ(preset("dldr").step.search.rho, 0.4);
  EXPECT_EQ(preset("dldr").components, 40);
  EXPECT_EQ(preset("dldr").start, Start::first);
  EXPECT_EQ(preset("dldr").step.residual.alpha, 0);
  EXPECT_EQ(presets().front().name, "robust");
  EXPECT_THROW(preset("robst"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::stage2
