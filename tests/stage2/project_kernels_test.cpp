#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "stage2/projection_cpu.h"
#include "tests/stage2/kernel_problems.h"

// Behind the names that it needs.
#include "stage2/project_kernels.cuh"

namespace dimred::stage2::cuda {
namespace {

template <int width, class Value>
std::vector<double> sums_of(const Matrix<Value>& basis,
                            const std::vector<const float*>& others,
                            const float* vector,
                            int group_rows = 0) {
  Products<Value> in;
  in.basis = basis;
  in.rows = static_cast<int>(basis.rows) + static_cast<int>(others.size());
  in.vector = vector;
  in.tiles = tiles_of(basis.columns);
  in.group_rows = group_rows > 0 ? group_rows : group_rows_of(in.rows, in.tiles);
  std::copy(others.begin(), others.end(), in.others);
  std::vector<double> partial(static_cast<std::size_t>(in.rows * in.tiles));
  in.partial = partial.data();
  std::vector<double> sums(static_cast<std::size_t>(in.rows));
  const auto groups = static_cast<unsigned>((in.rows + in.group_rows - 1) / in.group_rows);
  host_grid::launch(
      {static_cast<unsigned>(in.tiles) * groups, 1, 1}, threads, [&] { project_tiles<width>(in); });
  host_grid::launch({static_cast<unsigned>(in.rows), 1, 1}, threads, [&] {
    add_partials(partial.data(), in.tiles, sums.data());
  });
  return sums;
}

/// The widths that the launcher chooses between.
template <class Value>
std::vector<double> sums_of(Problem<Value>& problem, const std::vector<const float*>& others = {}) {
  if (!on_boundary(problem.basis) || !on_boundary(problem.v.data()))
    return sums_of<1>(problem.basis, others, problem.v.data());
  return sums_of<16 / sizeof(Value)>(problem.basis, others, problem.v.data());
}

/// Within 8 roundings of a float32 of the exact sum, as promised.
template <class At>
void expect_dot(double sum, std::int64_t columns, const At& product) {
  long double exact = 0;
  long double magnitude = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    exact += product(j);
    magnitude += std::abs(product(j));
  }
  EXPECT_LE(std::abs(sum - exact), 8 * 0x1p-24L * magnitude) << columns;
}

template <class Value>
void expect_projections(std::int64_t k, std::int64_t columns, int shift, float scale_range = 0) {
  Problem<Value> problem(k, columns, shift, scale_range);
  const auto sums = sums_of(problem);
  for (std::int64_t i = 0; i < k; ++i) {
    expect_dot(sums[static_cast<std::size_t>(i)], columns, [&](std::int64_t j) {
      return static_cast<long double>(problem.at(i, j)) * problem.v[j];
    });
  }
}

TEST(ProjectKernel, IsWithinItsBoundOfTheExactSums) {
  for (const int shift : {0, 1, 3}) {
    for (const std::int64_t columns : {1, 3, 255, 256, 257, 511, 513, 4095, 4096, 4097, 20003}) {
      expect_projections<float>(3, columns, shift);
      expect_projections<std::uint16_t>(2, columns, shift);
    }
    for (const std::int64_t k : {1, 32, 128}) {
      expect_projections<float>(k, 4700, shift);
      expect_projections<std::uint16_t>(k, 4700, shift);
    }
  }
  expect_projections<float>(2, 100001, 0);
  expect_projections<std::uint16_t>(2, 100001, 1);
}

TEST(ProjectKernel, AddsItsRunsOfEightInFloat64) {
  // Columns 0 and 256 are one lane's, in two runs; float32 has no 2^24 + 1.
  Problem<float> problem(1, 512, 0);
  for (std::int64_t j = 0; j < 512; ++j) {
    problem.p[j] = j == 0 ? 0x1p24F : static_cast<float>(j == 256);
    problem.v[j] = 1;
  }
  EXPECT_EQ(sums_of(problem), std::vector<double>{0x1p24 + 1});
}

TEST(ProjectKernel, TakesRowsOfAnyScale) {
  expect_projections<float>(40, 5000, 0, 20);
  expect_projections<float>(40, 5000, 1, 20);
  expect_projections<std::uint16_t>(40, 5000, 0, 20);
}

TEST(ProjectKernel, AgreesWithTheProcessorsLoops) {
  Problem<float> problem(5, 9001, 0);
  std::vector<float> packed;
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto* row = problem.p.data() + i * problem.pitch;
    packed.insert(packed.end(), row, row + 9001);
  }
  const auto host = cpu::project(packed.data(), 5, 9001, problem.v.data());
  const auto device = sums_of(problem);
  for (std::size_t i = 0; i < 5; ++i) {
    double magnitude = 0;
    for (std::int64_t j = 0; j < 9001; ++j)
      magnitude += std::abs(problem.at(static_cast<std::int64_t>(i), j) * problem.v[j]);
    EXPECT_NEAR(device[i], host[i], (80 + 8) * 6e-8 * magnitude);  // both bounds
  }
}

TEST(ProjectKernel, HasTheSameBitsHoweverRowsAreShared) {
  Problem<float> problem(9, 9000, 0);
  const std::vector<const float*> others{problem.v.data(), problem.p.data()};
  const auto all = sums_of<4>(problem.basis, others, problem.v.data(), 11);
  for (const int rows : {2, 4, 8})
    EXPECT_EQ(sums_of<4>(problem.basis, others, problem.v.data(), rows), all);
}

TEST(ProjectKernel, MultipliesOtherVectorsInTheSamePass) {
  for (const int shift : {0, 1}) {
    Problem<std::uint16_t> problem(3, 6001, shift);
    Store<float> m(6001, shift);
    for (std::int64_t j = 0; j < 6001; ++j) m[j] = static_cast<float>(j % 17) - 8;
    const auto sums = sums_of(problem, {m.data(), problem.v.data()});
    ASSERT_EQ(sums.size(), 5U);
    const auto of = [&](float* other) {
      return [&problem, other](std::int64_t j) {
        return static_cast<long double>(other[j]) * problem.v[j];
      };
    };
    expect_dot(sums[3], 6001, of(m.data()));
    expect_dot(sums[4], 6001, of(problem.v.data()));
    Matrix<float> none;
    none.columns = 6001;
    EXPECT_EQ((sums_of<1>(none, {m.data()}, problem.v.data()).size()), 1U);
  }
}

TEST(ProjectKernel, PassesOnWhatIsNotANumber) {
  Problem<float> problem(3, 5000, 0);
  problem.p[1 * problem.pitch + 4999] = not_a_number;
  auto sums = sums_of(problem);
  EXPECT_TRUE(std::isnan(sums[1]));
  EXPECT_TRUE(std::isfinite(sums[0]) && std::isfinite(sums[2]));
  problem.v[4100] = std::numeric_limits<float>::infinity();
  sums = sums_of(problem);
  EXPECT_FALSE(std::isfinite(sums[0]) || std::isfinite(sums[2]));
}

TEST(ProjectKernel, SharesRowsWhereTilesAreFew) {
  EXPECT_EQ(group_rows_of(34, 6240), 34);  // ResNet-50: g is read once
  EXPECT_EQ(group_rows_of(34, 67), 2);     // ResNet-20: 17 x 67 blocks
  EXPECT_EQ(group_rows_of(130, 500), 64);
  EXPECT_EQ(group_rows_of(1, 1), 2);
}

TEST(KernelColumns, ChooseWideLoadsOnBoundariesOnly) {
  alignas(16) std::array<float, 8> values{};
  EXPECT_TRUE(on_boundary(Matrix<float>{values.data(), 2, 3, 4}));
  EXPECT_FALSE(on_boundary(Matrix<float>{values.data(), 2, 3, 3}));
  EXPECT_FALSE(on_boundary(Matrix<float>{values.data() + 1, 1, 3, 4}));
  Problem<float> shifted(2, 50, 1);
  EXPECT_THROW(sums_of<4>(shifted.basis, {}, shifted.v.data()), std::logic_error);
}

}  // namespace
}  // namespace dimred::stage2::cuda
