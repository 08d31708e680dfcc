#include "stage2/projection.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <array>

namespace dimred::stage2 {
namespace {

/// Small integers: every float32 product and sum is exact, so results must be equal.
torch::Tensor integers(torch::IntArrayRef shape) {
  return torch::randint(-3, 4, shape, torch::kFloat32);
}

class ProjectionSizes : public testing::TestWithParam<std::int64_t> {};

TEST_P(ProjectionSizes, ProjectIsExactOnIntegers) {
  torch::manual_seed(1);
  const auto basis = integers({5, GetParam()});
  const auto vector = integers({GetParam()});
  const auto expected = basis.to(torch::kFloat64).matmul(vector.to(torch::kFloat64));
  const auto result = project(basis, vector);
  ASSERT_EQ(result.size(), 5U);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], expected[i].item<double>());
}

TEST_P(ProjectionSizes, BackProjectIsExactOnIntegers) {
  torch::manual_seed(2);
  const auto basis = integers({5, GetParam()});
  const std::vector<double> a{1, -2, 3, 0, 2};
  const std::vector<double> b{0, 1, 1, -4, 2};
  const auto [first, second] = back_project(basis, a, b);
  EXPECT_TRUE(torch::equal(first, torch::matmul(torch::tensor(a, torch::kFloat32), basis)));
  EXPECT_TRUE(torch::equal(second, torch::matmul(torch::tensor(b, torch::kFloat32), basis)));
}

INSTANTIATE_TEST_SUITE_P(Columns,
                         ProjectionSizes,
                         testing::Values(1, 15, 16, 17, 1023, 1024, 1025, 16384, 16385, 50000));

TEST(Projection, HasTheSameBitsForAnyNumberOfThreads) {
  // Built without OpenMP, parallel_for is a plain loop and this test would show nothing.
  ASSERT_EQ(at::get_thread_num(), 0);
  torch::set_num_threads(2);
  std::array<int, 2> thread{-1, -1};
  at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t) {
    thread.at(static_cast<std::size_t>(begin)) = at::get_thread_num();
  });
  ASSERT_EQ(thread, (std::array{0, 1}));
  torch::manual_seed(3);
  const auto basis = torch::randn({32, 100003});
  const auto vector = torch::randn({100003});
  torch::set_num_threads(1);
  const auto one = project(basis, vector);
  torch::set_num_threads(2);
  EXPECT_EQ(project(basis, vector), one);
  const auto both = back_project(basis, one, one);
  torch::set_num_threads(1);
  EXPECT_TRUE(torch::equal(back_project(basis, one, one).first, both.first));
}

TEST(Projection, StaysCloseToFloat64OnBadlyScaledInput) {
  torch::manual_seed(4);
  const auto scale = torch::pow(10.0, torch::rand({100003}) * 12 - 6).to(torch::kFloat32);
  const auto basis = torch::randn({3, 100003});
  const auto vector = torch::randn({100003}) * scale;
  const auto exact = basis.to(torch::kFloat64).matmul(vector.to(torch::kFloat64));
  const auto magnitude = basis.abs().to(torch::kFloat64).matmul(vector.abs().to(torch::kFloat64));
  const auto result = project(basis, vector);
  // 64 float32 terms a lane, 16 lanes: at most ~80 roundings of 6e-8 relative to the sum of
  // magnitudes.
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(result[static_cast<std::size_t>(i)],
                exact[i].item<double>(),
                80 * 6e-8 * magnitude[i].item<double>());
  }
}

TEST(Projection, RefusesAnotherNumberOfColumns) {
  EXPECT_THROW(project(torch::zeros({2, 5}), torch::zeros({4})), std::invalid_argument);
  EXPECT_THROW(back_project(torch::zeros({2, 5}), std::vector<double>(3), std::vector<double>(2)),
               std::invalid_argument);
}

TEST(Projection, CudaEqualsCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  torch::manual_seed(5);
  const auto basis = torch::randn({32, 70001});
  const auto vector = torch::randn({70001});
  const auto host = project(basis, vector);
  const auto device = project(basis.cuda(), vector.cuda());
  for (std::size_t i = 0; i < host.size(); ++i) EXPECT_NEAR(device[i], host[i], 1e-3);
  const auto [a, b] = back_project(basis, host, host);
  const auto [c, d] = back_project(basis.cuda(), host, host);
  EXPECT_TRUE(torch::allclose(a, c.cpu(), 1e-5, 1e-3));
  EXPECT_TRUE(torch::allclose(b, d.cpu(), 1e-5, 1e-3));
}

}  // namespace
}  // namespace dimred::stage2
