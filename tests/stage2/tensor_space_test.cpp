#include "stage2/tensor_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/make_method.h"
#include "method/method.h"
#include "method/presets.h"
#include "tests/tools/function_space.h"

namespace dimred::stage2 {
namespace {

using method::preset;

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 with the first two coordinates as the subspace.
struct Quadratic {
  explicit Quadratic(torch::Dtype dtype = torch::kFloat32)
      : space(
            torch::eye(4).narrow(0, 0, 2).contiguous().to(dtype),
            *communicator,
            columns,
            weights,
            [this] { return (curvature * (weights - 1).square()).sum().item<double>() / 2; },
            [this] { return curvature * (weights - 1); }) {}

  torch::Tensor curvature = torch::tensor({4.0F, 1.0F, 2.0F, 3.0F});
  torch::Tensor weights = torch::zeros({4});
  std::unique_ptr<distributed::TensorCommunicator> communicator = distributed::single_rank();
  distributed::Columns columns;
  FunctionSpace space;
};

TEST(TensorSpace, IsTheSameWithTheSameBasisInBfloat16) {
  Quadratic wide, narrow(torch::kBFloat16);  // zeros and ones: exact
  const auto one = make_method(preset("robust").method, wide.space.block_sizes());
  const auto other = make_method(preset("robust").method, narrow.space.block_sizes());
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(one->step(wide.space, 0).loss, other->step(narrow.space, 0).loss);
  EXPECT_TRUE(torch::equal(wide.weights, narrow.weights));
  EXPECT_EQ(narrow.space.momentum().scalar_type(), torch::kFloat32);
}

TEST(TensorSpace, ReturnsToTheStartBitForBit) {
  Quadratic problem;
  problem.weights.copy_(torch::tensor({0.1F, 0.3F, 0.7F, 1e-8F}));
  const auto start = problem.weights.clone();
  problem.space.trial = [](double loss) { return loss + 100; };  // every trial fails
  const auto method = make_method(preset("robust").method, problem.space.block_sizes());
  const auto report = method->step(problem.space, 0);
  EXPECT_EQ(report.search.outcome, method::SearchOutcome::no_decrease);
  EXPECT_TRUE(torch::equal(problem.weights, start));
}

TEST(TensorSpace, HasWeightsAndMomentumOfBeforeTheStepWhereATrialOrTheGradientThrows) {
  for (const bool in_a_trial : {true, false}) {
    Quadratic problem;
    const auto method = make_method(preset("robust").method, problem.space.block_sizes());
    method->step(problem.space, 0);
    const auto weights = problem.weights.clone(), momentum = problem.space.momentum().clone();
    ASSERT_GT(momentum.abs().max().item<float>(), 0);
    ASSERT_GT(weights.abs().max().item<float>(), 0);
    if (in_a_trial) {
      problem.space.trial = [](double) -> double { throw std::runtime_error("stopped"); };
    } else {
      problem.space.gradient_at_weights = []() -> torch::Tensor {
        throw std::runtime_error("lost");
      };
    }
    EXPECT_THROW(method->step(problem.space, 0), std::runtime_error) << in_a_trial;
    EXPECT_TRUE(torch::equal(problem.weights, weights)) << in_a_trial;
    EXPECT_TRUE(torch::equal(problem.space.momentum(), momentum)) << in_a_trial;
  }
}

/// As on a device that has failed: its weights take no copy any more.
TEST(TensorSpace, LetsTheFirstErrorThroughWhereTheWeightsCannotBePutBack) {
  Quadratic problem;
  const auto method = make_method(preset("robust").method, problem.space.block_sizes());
  method->step(problem.space, 0);
  const auto momentum = problem.space.momentum().clone();
  problem.space.trial = [&](double) -> double {
    problem.weights.resize_({3});
    throw std::invalid_argument("first");
  };
  testing::internal::CaptureStderr();
  EXPECT_THROW(method->step(problem.space, 0), std::invalid_argument);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::StartsWith("[dimred] the clean-up after an error failed: "));
  EXPECT_TRUE(torch::equal(problem.space.momentum(), momentum));
}

}  // namespace
}  // namespace dimred::stage2
