// Stage 2's algebra on a CUDA device against the processor's.
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cmath>
#include <limits>

#include "stage2/line.h"
#include "stage2/projection_device.h"
#include "stage2/step.h"

namespace dimred::stage2 {
namespace {

class DeviceAlgebra : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(1);
  }
};

/// As it is, on wide boundaries, and one value behind them.
std::vector<torch::Tensor> layouts(const torch::Tensor& basis) {
  const auto columns = basis.size(1);
  auto shifted = torch::zeros({basis.size(0), columns + 3}, basis.options().device(torch::kCUDA));
  shifted.narrow(1, 1, columns).copy_(basis);
  return {basis.cuda(), device::aligned_rows(basis, torch::kCUDA), shifted.narrow(1, 1, columns)};
}

/// Both sums are within their bounds: 80 and 8 roundings of 6e-8.
void expect_projections(const torch::Tensor& basis, const torch::Tensor& vector) {
  const auto host = project(basis, vector);
  const auto wide = basis.to(torch::kFloat64);
  const auto magnitude = wide.abs().matmul(vector.to(torch::kFloat64).abs());
  for (const auto& rows : layouts(basis)) {
    const auto device = project(rows, vector.cuda());
    ASSERT_EQ(device.size(), host.size());
    for (std::size_t i = 0; i < host.size(); ++i) {
      EXPECT_NEAR(
          device[i], host[i], 88 * 6e-8 * magnitude[static_cast<std::int64_t>(i)].item<double>())
          << basis.sizes() << ' ' << i;
    }
    EXPECT_EQ(project(rows, vector.cuda()), device);
  }
}

TEST_F(DeviceAlgebra, ProjectsAsTheProcessor) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t columns : {0, 1, 3, 255, 256, 257, 4097, 100001})
      expect_projections(torch::randn({9, columns}).to(dtype), torch::randn({columns}));
    for (const std::int64_t k : {1, 32, 128})
      expect_projections(torch::randn({k, 20001}).to(dtype), torch::randn({20001}));
    const auto scale = torch::pow(10.0, torch::rand({20, 1}) * 40 - 20);
    expect_projections((torch::randn({20, 9001}) * scale).to(dtype), torch::randn({9001}));
  }
  expect_projections(torch::randn({2, 5000000}), torch::randn({5000000}));  // all rows in a block
}

TEST_F(DeviceAlgebra, BringsSeveralProductsAtOnce) {
  const auto basis = torch::randn({33, 10001}).cuda();
  const auto g = torch::randn({10001}).cuda();
  const auto m = torch::randn({10001}).cuda();
  const auto numbers =
      project({{.basis = basis, .vector = g, .others = {m, g}}, {.vector = m, .others = {m}}});
  auto expected = project(basis, g);
  expected.insert(expected.end(), {inner_product(m, g), inner_product(g, g), inner_product(m, m)});
  EXPECT_EQ(numbers, expected);
}

TEST_F(DeviceAlgebra, BackProjectsAsTheProcessor) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t k : {1, 9, 32, 128}) {
      for (const std::int64_t columns : {0, 1, 255, 1027, 70001}) {
        const auto basis = torch::randn({k, columns}).to(dtype);
        const std::vector<double> a(static_cast<std::size_t>(k), 0.3);
        const std::vector<double> b(static_cast<std::size_t>(k), -0.7);
        const auto [one, two] = back_project(basis, a, b);
        // k products and sums a column, in either order.
        const auto bound =
            2 * static_cast<double>(k + 1) * 6e-8 * basis.to(torch::kFloat32).abs().sum(0);
        for (const auto& rows : layouts(basis)) {
          const auto [first, second] = back_project(rows, a, b);
          EXPECT_TRUE(((first.cpu() - one).abs() <= bound).all().item<bool>()) << basis.sizes();
          EXPECT_TRUE(((second.cpu() - two).abs() <= bound).all().item<bool>()) << basis.sizes();
        }
      }
    }
  }
}

TEST_F(DeviceAlgebra, PassesOnWhatIsNotANumber) {
  auto basis = torch::randn({3, 5000});
  basis[1][4000] = std::numeric_limits<float>::quiet_NaN();
  const auto g_k = project(basis.cuda(), torch::ones({5000}).cuda());
  EXPECT_TRUE(std::isfinite(g_k[0]) && std::isnan(g_k[1]) && std::isfinite(g_k[2]));
  const std::vector<double> ones{1, 1, 1};
  const auto nan = torch::isnan(back_project(basis.cuda(), ones, ones).first);
  EXPECT_EQ(nan.sum().item<int>(), 1);
  EXPECT_TRUE(nan[4000].item<bool>());
}

TEST_F(DeviceAlgebra, RefusesMoreComponentsThanItsKernelsTake) {
  const auto basis = torch::zeros({129, 8}).cuda();
  EXPECT_THROW(project(basis, torch::zeros({8}).cuda()), std::logic_error);
  const std::vector<double> values(129);
  EXPECT_THROW(back_project(basis, values, values), std::logic_error);
}

TEST_F(DeviceAlgebra, RefusesVectorsWithGaps) {
  const auto basis = torch::zeros({3, 8}).cuda();
  const auto gaps = torch::zeros({8, 2}).cuda().select(1, 0);
  EXPECT_THROW(project(basis, gaps), std::logic_error);
  EXPECT_THROW(inner_product(gaps, torch::zeros({8}).cuda()), std::logic_error);
}

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 in `columns` coordinates, on a device.
struct Quadratic {
  explicit Quadratic(std::int64_t columns, torch::Device on)
      : curvature((torch::arange(columns, torch::kFloat32) % 7 + 1).to(on)),
        weights(torch::zeros({columns}, curvature.options())) {}

  double loss() const { return (curvature * (weights - 1).square()).mean().item<double>() / 2; }
  BatchLoss batch() {
    return {.loss = [this] { return loss(); },
            .gradient = curvature * (weights - 1) / static_cast<double>(curvature.numel()),
            .evaluate = [this] { return loss(); }};
  }

  Place place(const Subspace& subspace) {
    return {.subspace = subspace,
            .communicator = *communicator,
            .columns = columns,
            .own_columns = weights};
  }

  torch::Tensor curvature;
  torch::Tensor weights;
  std::unique_ptr<distributed::Communicator> communicator = distributed::single_rank();
  distributed::Columns columns;
};

/// Weights after ten steps.
torch::Tensor descend(Quadratic& problem, const Subspace& subspace, const StepOptions& options) {
  const auto place = problem.place(subspace);
  auto state = initial_state(place);
  for (int i = 0; i < 10; ++i) step(place, problem.batch(), problem.weights, state, options);
  return problem.weights.cpu();
}

TEST_F(DeviceAlgebra, TakesTheProcessorsSteps) {
  constexpr std::int64_t columns = 5003;
  const auto basis = std::get<0>(torch::linalg_qr(torch::randn({columns, 6}))).t().contiguous();
  const std::vector<layout::ColumnRange> ranges{{0, 1001}, {1003, 5000}};  // with gaps
  for (const auto* preset_name : {"robust", "mindspore-latest", "mindspore-first", "dldr"}) {
    auto options = preset(preset_name).step;
    options.residual.alpha = 0.1;
    Quadratic host(columns, torch::kCPU);
    Quadratic device(columns, torch::kCUDA);
    const auto expected = descend(host, basis, options);
    const auto result = descend(device, device::aligned_rows(basis, torch::kCUDA), options);
    EXPECT_TRUE(torch::allclose(result, expected, 1e-4, 1e-4)) << preset_name;
    Quadratic host_blocks(columns, torch::kCPU);
    Quadratic device_blocks(columns, torch::kCUDA);
    EXPECT_TRUE(
        torch::allclose(descend(device_blocks, by_blocks(basis, ranges, torch::kCUDA), options),
                        descend(host_blocks, by_blocks(basis, ranges), options),
                        1e-4,
                        1e-4))
        << preset_name;
  }
}

TEST_F(DeviceAlgebra, ReturnsToTheStartBitForBit) {
  Quadratic problem(1000, torch::kCUDA);
  problem.weights.normal_();
  const auto start = problem.weights.clone();
  auto batch = problem.batch();
  batch.evaluate = [start = batch.loss()] { return start + 1; };  // every trial fails
  const auto place = problem.place(torch::eye(1000).narrow(0, 0, 4).contiguous().cuda());
  auto state = initial_state(place);
  const auto report = step(place, batch, problem.weights, state, preset("robust").step);
  EXPECT_EQ(report.search.outcome, SearchOutcome::no_decrease);
  EXPECT_TRUE(torch::equal(problem.weights, start));
}

}  // namespace
}  // namespace dimred::stage2
