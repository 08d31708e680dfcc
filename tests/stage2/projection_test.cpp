#include "stage2/projection.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>

#include "checkpoints/float_formats.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::stage2 {
namespace {

/// Small integers: every float32 product and sum is exact, so results must be equal.
torch::Tensor integers(torch::IntArrayRef shape) {
  return torch::randint(-3, 4, shape, torch::kFloat32);
}

/// Columns and the type of P, which holds small integers exactly either way.
class ProjectionSizes : public testing::TestWithParam<std::tuple<std::int64_t, torch::ScalarType>> {
 protected:
  std::int64_t columns = std::get<0>(GetParam());
  torch::ScalarType dtype = std::get<1>(GetParam());
};

TEST_P(ProjectionSizes, ProjectIsExactOnIntegers) {
  torch::manual_seed(1);
  const auto basis = integers({9, columns}).to(dtype);
  const auto vector = integers({columns});
  const auto expected = basis.to(torch::kFloat64).matmul(vector.to(torch::kFloat64));
  const auto result = project(basis, vector);
  ASSERT_EQ(result.size(), 9U);
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], expected[i].item<double>());
}

TEST_P(ProjectionSizes, BackProjectIsExactOnIntegers) {
  torch::manual_seed(2);
  const auto wide = integers({9, columns});
  const std::vector<double> a{1, -2, 3, 0, 2, -1, 1, 4, -3};
  const std::vector<double> b{0, 1, 1, -4, 2, 3, -2, 1, 5};
  const auto [first, second] = back_project(wide.to(dtype), a, b);
  EXPECT_TRUE(torch::equal(first, torch::matmul(torch::tensor(a, torch::kFloat32), wide)));
  EXPECT_TRUE(torch::equal(second, torch::matmul(torch::tensor(b, torch::kFloat32), wide)));
}

INSTANTIATE_TEST_SUITE_P(
    Columns,
    ProjectionSizes,
    testing::Combine(testing::Values(0, 1, 15, 16, 17, 1023, 1024, 1025, 16384, 16385, 50000),
                     testing::Values(torch::kFloat32, torch::kBFloat16)));

TEST(Projection, OfBfloat16IsThatOfTheRoundedBasisInFloat32) {
  torch::manual_seed(6);
  for (const std::int64_t columns : {1, 3, 31, 1027, 16385, 50001}) {
    const auto basis = torch::randn({11, columns}).to(torch::kBFloat16);
    const auto wide = basis.to(torch::kFloat32);
    const auto vector = torch::randn({columns});
    const auto result = project(basis, vector);
    const auto expected = project(wide, vector);
    const auto magnitude = wide.abs().matmul(vector.abs());
    // The same products; at most ~80 roundings of 6e-8 in each sum, as below.
    for (int i = 0; i < 11; ++i) {
      EXPECT_NEAR(result[static_cast<std::size_t>(i)],
                  expected[static_cast<std::size_t>(i)],
                  2 * 80 * 6e-8 * magnitude[i].item<double>());
    }
    const auto [a, b] = back_project(basis, expected, std::vector<double>(11, 0.3));
    const auto [c, d] = back_project(wide, expected, std::vector<double>(11, 0.3));
    EXPECT_EQ(a.scalar_type(), torch::kFloat32);
    // 11 products and sums a column, in either order.
    const auto bound = 2 * 22 * 6e-8 * wide.abs().sum(0);
    const auto largest = torch::tensor(expected).abs().max().item<double>();
    EXPECT_TRUE(((a - c).abs() <= largest * bound).all().item<bool>()) << columns;
    EXPECT_TRUE(((b - d).abs() <= 0.3 * bound).all().item<bool>()) << columns;
  }
}

TEST(Projection, RoundsToBfloat16AsPyTorchDoes) {
  // Every upper half, with the lower halves around a tie and around both neighbours.
  constexpr int halves = 1 << 16;
  for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
    std::vector<float> values(halves);
    for (std::uint32_t high = 0; high < halves; ++high)
      values[high] = std::bit_cast<float>(high << 16 | low);
    const auto expected = torch::tensor(values).to(torch::kBFloat16).view(torch::kInt16);
    const auto* bits = expected.const_data_ptr<std::int16_t>();
    for (int i = 0; i < halves; ++i) {
      const auto value = values[static_cast<std::size_t>(i)];
      const auto ours = checkpoints::to_bfloat(value);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(checkpoints::from_bfloat(ours)));
      } else {
        ASSERT_EQ(ours, static_cast<std::uint16_t>(bits[i])) << value;
      }
    }
  }
}

TEST(Projection, TakesAnEmptyShardWithoutMemory) {
  std::vector<float> none;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto basis = torch::from_blob(none.data(), {3, 0}, dtype);
    EXPECT_EQ(project(basis, torch::empty({0})), std::vector<double>(3));
    EXPECT_EQ(back_project(basis, std::vector<double>(3), std::vector<double>(3)).first.numel(), 0);
  }
}

TEST(Projection, RefusesAnotherType) {
  EXPECT_ANY_THROW(project(torch::zeros({2, 5}, torch::kHalf), torch::zeros({5})));
}

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
  const auto vector = torch::randn({100003});
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto basis = torch::randn({32, 100003}).to(dtype);
    torch::set_num_threads(1);
    const auto one = project(basis, vector);
    torch::set_num_threads(2);
    EXPECT_EQ(project(basis, vector), one);
    const auto both = back_project(basis, one, one);
    torch::set_num_threads(1);
    EXPECT_TRUE(torch::equal(back_project(basis, one, one).first, both.first));
  }
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

TEST(Projection, RefusesValuesWithGaps) {
  const auto wide = torch::zeros({9, 200});
  const auto gaps = wide.narrow(1, 0, 100);
  const std::vector<double> nine(9);
  EXPECT_EQ(thrown<std::invalid_argument>([&] { project(gaps, torch::zeros({100})); }),
            "[stage2] needs contiguous values, received [9, 100] with strides [200, 1]");
  EXPECT_EQ(thrown<std::invalid_argument>([&] { back_project(gaps, nine, nine); }),
            "[stage2] needs contiguous values, received [9, 100] with strides [200, 1]");
  const auto column = torch::zeros({4, 2}).select(1, 0);
  EXPECT_EQ(thrown<std::invalid_argument>([&] { inner_product(column, torch::zeros({4})); }),
            "[stage2] needs contiguous values, received [4] with strides [2]");
  EXPECT_EQ(thrown<std::invalid_argument>([&] { inner_product(torch::zeros({4}), column); }),
            "[stage2] needs contiguous values, received [4] with strides [2]");
  EXPECT_EQ(
      thrown<std::invalid_argument>([&] { inner_product(torch::zeros({3}), torch::zeros({4})); }),
      "[stage2] needs tensors of 4 columns each, received one of shape [3]");
}

TEST(Projection, OfSeveralProductsIsEachOfThem) {
  torch::manual_seed(7);
  const auto basis = torch::randn({3, 5000});
  const auto g = torch::randn({5000});
  const auto m = torch::randn({5000});
  const auto numbers =
      project({{.basis = basis, .vector = g, .others = {m, g}}, {.vector = m, .others = {m}}});
  auto expected = project(basis, g);
  expected.insert(expected.end(), {inner_product(g, m), inner_product(g, g), inner_product(m, m)});
  EXPECT_EQ(numbers, expected);
  EXPECT_EQ(project(std::vector<Product>{}), std::vector<double>{});
  EXPECT_THROW(project({{.vector = g, .others = {torch::zeros({4999})}}}), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::stage2
