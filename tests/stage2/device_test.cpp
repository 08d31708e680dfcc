// Stage 2's algebra on a CUDA device against the processor's.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <array>
#include <cmath>
#include <limits>

#include "method/make_method.h"
#include "method/method.h"
#include "method/presets.h"
#include "stage2/fused.h"
#include "stage2/projection.h"
#include "stage2/projection_device.h"
#include "tests/tools/function_space.h"

namespace dimred::stage2 {
namespace {

class DeviceAlgebraTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(1);
  }
};

constexpr std::array algebras{DeviceAlgebra::aten, DeviceAlgebra::fused};

/// As it is, on wide boundaries, and one value behind them.
std::vector<torch::Tensor> layouts(const torch::Tensor& basis) {
  const auto columns = basis.size(1);
  auto shifted = torch::zeros({basis.size(0), columns + 3}, basis.options().device(torch::kCUDA));
  shifted.narrow(1, 1, columns).copy_(basis);
  return {basis.cuda(), device::aligned_rows(basis, torch::kCUDA), shifted.narrow(1, 1, columns)};
}

/// Both sums are within their bounds of the exact one: 80 roundings of 6e-8 on the processor, 8 of
/// the fused kernels, and what ATen has shown elsewhere, far below its 4096.
void expect_projections(const torch::Tensor& basis, const torch::Tensor& vector) {
  const auto host = project(basis, vector);
  const auto wide = basis.to(torch::kFloat64);
  const auto magnitude = wide.abs().matmul(vector.to(torch::kFloat64).abs());
  for (const auto algebra : algebras) {
    for (const auto& rows : layouts(basis)) {
      const Product product{
          .basis = rows, .vector = vector.cuda(), .others = {}, .algebra = algebra};
      const auto device = project({product});
      ASSERT_EQ(device.size(), host.size());
      for (std::size_t i = 0; i < host.size(); ++i) {
        const auto size = magnitude[static_cast<std::int64_t>(i)].item<double>();
        EXPECT_NEAR(device[i], host[i], 2 * 80 * 6e-8 * size) << basis.sizes() << ' ' << i;
      }
      EXPECT_EQ(project({product}), device);
    }
  }
}

TEST_F(DeviceAlgebraTest, ProjectsAsTheProcessor) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::int64_t columns : {0, 1, 3, 255, 256, 257, 4097, 100001})
      expect_projections(torch::randn({9, columns}).to(dtype), torch::randn({columns}));
    for (const std::int64_t k : {1, 32, 128})
      expect_projections(torch::randn({k, 20001}).to(dtype), torch::randn({20001}));
    const auto scale = torch::pow(10.0, torch::rand({20, 1}) * 40 - 20);
    expect_projections((torch::randn({20, 9001}) * scale).to(dtype), torch::randn({9001}));
  }
  expect_projections(torch::randn({2, 5000000}), torch::randn({5000000}));
}

TEST_F(DeviceAlgebraTest, KeepsAllBitsOfFloat32WhereTheRunAllowsTf32) {
  at::globalContext().setAllowTF32CuBLAS(true);
  expect_projections(torch::randn({32, 100001}), torch::randn({100001}));
  at::globalContext().setAllowTF32CuBLAS(false);
}

TEST_F(DeviceAlgebraTest, BringsSeveralProductsAtOnce) {
  const auto basis = torch::randn({33, 10001}).cuda();
  const auto g = torch::randn({10001}).cuda();
  const auto m = torch::randn({10001}).cuda();
  auto expected = project(basis, g);
  expected.insert(expected.end(), {inner_product(m, g), inner_product(g, g), inner_product(m, m)});
  for (const auto algebra : algebras) {
    const auto numbers = project({{basis, g, {m, g}, algebra}, {{}, m, {m}, algebra}});
    ASSERT_EQ(numbers.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(numbers[i], expected[i], 1e-6 * 10001) << i;
  }
}

TEST_F(DeviceAlgebraTest, BackProjectsAsTheProcessor) {
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

TEST_F(DeviceAlgebraTest, PassesOnWhatIsNotANumber) {
  auto basis = torch::randn({3, 5000});
  basis[1][4000] = std::numeric_limits<float>::quiet_NaN();
  for (const auto algebra : algebras) {
    const auto g_k = project({{basis.cuda(), torch::ones({5000}).cuda(), {}, algebra}});
    EXPECT_TRUE(std::isfinite(g_k[0]) && std::isnan(g_k[1]) && std::isfinite(g_k[2]));
  }
  const std::vector<double> ones{1, 1, 1};
  const auto nan = torch::isnan(back_project(basis.cuda(), ones, ones).first);
  EXPECT_EQ(nan.sum().item<int>(), 1);
  EXPECT_TRUE(nan[4000].item<bool>());
}

TEST_F(DeviceAlgebraTest, RefusesWhatTheFusedKernelsDoNotTake) {
  const auto fused = DeviceAlgebra::fused;
  const auto v = torch::zeros({8}).cuda();
  const auto gaps = torch::zeros({8, 2}).cuda().select(1, 0);
  EXPECT_THROW(project({{torch::zeros({129, 8}).cuda(), v, {}, fused}}), std::logic_error);
  EXPECT_THROW(project({{torch::zeros({3, 8}).cuda(), gaps, {}, fused}}), std::logic_error);
}

/// The shortest test of each kernel, for compute-sanitizer: one column behind a whole tile, rows
/// that leave a rest of eight, both types of P, vectors beside it, with weights and without.
class DeviceKernels : public DeviceAlgebraTest {
 protected:
  static constexpr std::int64_t columns = 4097;
  static constexpr std::size_t k = 9;
  const torch::Tensor basis = torch::randn({static_cast<std::int64_t>(k), columns});
  const torch::Tensor vectors = torch::randn({2, columns});

  void expect_projections(DeviceAlgebra algebra) {
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      const auto p = basis.to(dtype);
      const auto g = vectors[0], m = vectors[1];
      const Product here{.basis = p, .vector = g, .others = {m, g}};
      const Product there{.basis = p.cuda(),
                          .vector = g.cuda(),
                          .others = {m.cuda(), g.cuda()},
                          .algebra = algebra};
      const auto host = project({here}), device = project({there});
      ASSERT_EQ(device.size(), host.size());
      for (std::size_t i = 0; i < host.size(); ++i) EXPECT_NEAR(device[i], host[i], 2e-3) << i;
    }
  }
};

TEST_F(DeviceKernels, FusedProjectOnce) { expect_projections(DeviceAlgebra::fused); }

TEST_F(DeviceKernels, FusedAdvanceOnce) {
  const std::vector<double> d(k, 0.3), g_k(k, -0.7);
  const method::Line line{.direction = Eigen::VectorXd::Constant(k, 0.3),
                          .projected = Eigen::VectorXd::Constant(k, -0.7),
                          .gamma = 0.9,
                          .alpha = 0.1};
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto p = basis.to(dtype);
    const auto [forward, projected] = back_project(p, d, g_k);
    const auto m = 0.9 * vectors[1] + vectors[0] - projected;
    const auto u = forward - 0.1 * m;
    for (const bool moves : {true, false}) {
      const auto momentum = vectors[1].cuda(), gradient = vectors[0].cuda();
      const auto weights = moves ? torch::ones({columns}).cuda() : torch::Tensor();
      const auto start = moves ? torch::empty_like(weights) : torch::Tensor();
      const auto direction =
          fused::advance(Subspace(p.cuda()).blocks, line, {gradient, momentum, weights, start});
      EXPECT_TRUE(torch::allclose(direction.cpu(), u, 1e-4, 1e-4));
      EXPECT_TRUE(torch::allclose(momentum.cpu(), m, 1e-4, 1e-4));
      if (!moves) continue;
      EXPECT_TRUE(torch::allclose(weights.cpu(), 1 + u, 1e-4, 1e-4));
      EXPECT_TRUE(torch::equal(start.cpu(), torch::ones({columns})));
    }
  }
}

TEST_F(DeviceKernels, AtenOnce) {
  expect_projections(DeviceAlgebra::aten);
  const std::vector<double> d(k, 0.3), g_k(k, -0.7);
  const auto host = back_project(basis, d, g_k);
  const auto device = back_project(device::aligned_rows(basis, torch::kCUDA), d, g_k);
  EXPECT_TRUE(torch::allclose(device.first.cpu(), host.first, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(device.second.cpu(), host.second, 1e-4, 1e-4));
}

/// f(w) = sum_j c_j (w_j - 1)^2 / 2 in `columns` coordinates, on a device.
struct DeviceQuadratic {
  explicit DeviceQuadratic(std::int64_t columns, torch::Device on)
      : curvature((torch::arange(columns, torch::kFloat32) % 7 + 1).to(on)),
        weights(torch::zeros({columns}, curvature.options())) {}

  double loss() const { return (curvature * (weights - 1).square()).mean().item<double>() / 2; }
  FunctionSpace space(const Subspace& subspace) {
    return {subspace,
            *communicator,
            columns,
            weights,
            [this] { return loss(); },
            [this] { return curvature * (weights - 1) / static_cast<double>(curvature.numel()); }};
  }

  torch::Tensor curvature;
  torch::Tensor weights;
  std::unique_ptr<distributed::TensorCommunicator> communicator = distributed::single_rank();
  distributed::Columns columns;
};

/// Weights after ten steps.
torch::Tensor descend_on_device(DeviceQuadratic& problem,
                                const Subspace& subspace,
                                const method::MethodOptions& options) {
  auto space = problem.space(subspace);
  const auto method = make_method(options, space.block_sizes());
  for (int i = 0; i < 10; ++i) method->step(space, 0);
  return problem.weights.cpu();
}

TEST_F(DeviceAlgebraTest, TakesTheProcessorsSteps) {
  constexpr std::int64_t columns = 5003;
  const auto basis = std::get<0>(torch::linalg_qr(torch::randn({columns, 6}))).t().contiguous();
  const std::vector<layout::ColumnRange> ranges{{0, 1001}, {1003, 5000}};  // with gaps
  const auto expect_alike = [&](Subspace there,
                                const Subspace& here,
                                const method::MethodOptions& options) {
    DeviceQuadratic host(columns, torch::kCPU);
    const auto expected = descend_on_device(host, here, options);
    for (const auto algebra : algebras) {
      there.algebra = algebra;
      DeviceQuadratic device(columns, torch::kCUDA);
      EXPECT_TRUE(torch::allclose(descend_on_device(device, there, options), expected, 1e-4, 1e-4));
    }
  };
  for (const auto* name : {"robust", "mindspore-latest", "mindspore-first", "dldr"}) {
    SCOPED_TRACE(name);
    auto options = method::preset(name).method;
    options.residual.alpha = 0.1;
    expect_alike(device::aligned_rows(basis, torch::kCUDA), basis, options);
    expect_alike(by_blocks(basis, ranges, torch::kCUDA), by_blocks(basis, ranges), options);
  }
}

TEST_F(DeviceAlgebraTest, ReturnsToTheStartBitForBit) {
  DeviceQuadratic problem(1000, torch::kCUDA);
  problem.weights.normal_();
  const auto start = problem.weights.clone();
  Subspace subspace = torch::eye(1000).narrow(0, 0, 4).contiguous().cuda();
  for (const auto algebra : algebras) {
    subspace.algebra = algebra;
    auto space = problem.space(subspace);
    space.trial = [](double loss) { return loss + 1; };  // every trial fails
    const auto options = method::preset("robust").method;
    const auto report = make_method(options, space.block_sizes())->step(space, 0);
    EXPECT_EQ(report.search.outcome, method::SearchOutcome::no_decrease);
    EXPECT_TRUE(torch::equal(problem.weights, start));
  }
}

}  // namespace
}  // namespace dimred::stage2
