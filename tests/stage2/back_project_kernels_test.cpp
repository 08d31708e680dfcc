#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/stage2/kernel_problems.h"

// Behind the names that it needs.
#include "stage2/back_project_kernels.cuh"

namespace dimred::stage2::cuda {
namespace {

std::vector<float> coefficients(std::int64_t k, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < k; ++i)
    values.push_back(static_cast<float>((i * 5 + seed) % 11) / 4 - 1);
  return values;
}

template <int width, class Value, class Result>
void run_back_projection(const Matrix<Value>& basis,
                         const std::vector<float>& first,
                         const std::vector<float>& second,
                         const Result& result) {
  Coefficients by;
  std::copy(first.begin(), first.end(), by.first);
  std::copy(second.begin(), second.end(), by.second);
  const auto blocks = (basis.columns + threads * width - 1) / (threads * width);
  host_grid::launch({static_cast<unsigned>(blocks), 1, 1}, threads, [&] {
    back_project_columns<width>(basis, by, result);
  });
}

/// k roundings of a float32, and its rounding to nothing (2^-149 each).
template <class Value>
void expect_back_projections(std::int64_t k, std::int64_t columns, int shift, float scale = 0) {
  Problem<Value> problem(k, columns, shift, scale);
  Store<float> one(columns, shift, untouched);
  Store<float> two(columns, shift, untouched);
  const auto a = coefficients(k, 1);
  const auto b = coefficients(k, 3);
  const TwoVectors out{one.data(), two.data()};
  if (shift == 0) {
    run_back_projection<16 / sizeof(Value)>(problem.basis, a, b, out);
  } else {
    run_back_projection<1>(problem.basis, a, b, out);
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    std::array<long double, 2> exact{};
    std::array<long double, 2> bound{};
    for (std::int64_t i = 0; i < k; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const std::array<long double, 2> products{
          static_cast<long double>(a[row]) * problem.at(i, j),
          static_cast<long double>(b[row]) * problem.at(i, j)};
      for (std::size_t side = 0; side < 2; ++side) {
        exact[side] += products[side];
        bound[side] +=
            static_cast<long double>(k) * 0x1p-24L * std::abs(products[side]) + 0x1p-149L;
      }
    }
    EXPECT_LE(std::abs(one[j] - exact[0]), bound[0]) << columns << ' ' << j;
    EXPECT_LE(std::abs(two[j] - exact[1]), bound[1]) << columns << ' ' << j;
  }
  EXPECT_EQ(one[columns], untouched);
  EXPECT_EQ(two[columns], untouched);
}

TEST(BackProjectKernel, IsWithinItsBoundOfTheExactColumns) {
  for (const int shift : {0, 1}) {
    for (const std::int64_t columns : {1, 3, 255, 256, 257, 1023, 1025, 2049}) {
      expect_back_projections<float>(3, columns, shift);
      expect_back_projections<std::uint16_t>(3, columns, shift);
    }
    for (const std::int64_t k : {1, 7, 32, 33, 128}) {
      expect_back_projections<float>(k, 300, shift);
      expect_back_projections<std::uint16_t>(k, 300, shift);
    }
  }
  expect_back_projections<float>(2, 100001, 0);
  expect_back_projections<float>(40, 1000, 0, 20);
  expect_back_projections<std::uint16_t>(40, 1000, 1, 20);
}

/// m, u, w and its copy after one pass; gamma 1/2 and alpha 1/4 over small integers are exact.
struct Advances {
  Advances(std::int64_t columns, int shift)
      : g(columns, shift, untouched),
        m(columns, shift, untouched),
        u(columns, shift, untouched),
        w(columns, shift, untouched),
        start(columns, shift, untouched) {
    for (std::int64_t j = 0; j < columns; ++j) {
      g[j] = static_cast<float>(j % 7 - 3);
      m[j] = static_cast<float>(2 * (j % 5) - 4);
      w[j] = static_cast<float>(j % 9);
    }
    to = {g.data(), m.data(), 0.5F, 0.25F, u.data(), w.data(), start.data()};
  }
  Store<float> g, m, u, w, start;
  Advance to;
};

template <class Value>
Problem<Value> integers(std::int64_t columns, int shift) {
  Problem<Value> problem(3, columns, shift);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      problem.p[i * problem.pitch + j] = stored<Value>(static_cast<float>((i * 3 + j) % 5 - 2));
  return problem;
}

template <class Value>
void expect_advance(std::int64_t columns, int shift, bool with_weights) {
  auto problem = integers<Value>(columns, shift);
  const std::vector<float> d{1, -2, 3};
  const std::vector<float> g_k{2, 1, -1};
  Advances vectors(columns, shift);
  Advances before(columns, shift);
  if (!with_weights) vectors.to.weights = nullptr;
  if (shift == 0) {
    run_back_projection<16 / sizeof(Value)>(problem.basis, d, g_k, vectors.to);
  } else {
    run_back_projection<1>(problem.basis, d, g_k, vectors.to);
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    const float forward = problem.at(0, j) - 2 * problem.at(1, j) + 3 * problem.at(2, j);
    const float projected = 2 * problem.at(0, j) + problem.at(1, j) - problem.at(2, j);
    const float m = before.m[j] / 2 + (before.g[j] - projected);
    const float u = forward - m / 4;
    ASSERT_EQ(vectors.m[j], m) << j;
    ASSERT_EQ(vectors.u[j], u) << j;
    ASSERT_EQ(vectors.w[j], before.w[j] + (with_weights ? u : 0)) << j;
    EXPECT_TRUE(!with_weights || vectors.start[j] == before.w[j]) << j;
  }
  for (auto* vector : {&vectors.m, &vectors.u, &vectors.w, &vectors.start})
    EXPECT_EQ((*vector)[columns], untouched);
}

TEST(AdvanceKernel, MovesMomentumDirectionAndWeightsExactly) {
  for (const int shift : {0, 1}) {
    for (const std::int64_t columns : {1, 3, 4, 257, 2051}) {
      for (const bool with_weights : {true, false}) {
        expect_advance<float>(columns, shift, with_weights);
        expect_advance<std::uint16_t>(columns, shift, with_weights);
      }
    }
  }
}

TEST(AdvanceKernel, LeavesMomentumOutOfTheDirectionAtAlphaZero) {
  auto problem = integers<float>(100, 0);
  Advances vectors(100, 0);
  vectors.to.alpha = 0;
  vectors.m[50] = std::numeric_limits<float>::infinity();
  run_back_projection<4>(problem.basis, {1, 0, 0}, {0, 0, 0}, vectors.to);
  for (std::int64_t j = 0; j < 100; ++j) ASSERT_EQ(vectors.u[j], problem.at(0, j));
}

TEST(AdvanceKernel, WorksWithoutRowsOfP) {
  Advances vectors(70, 0);
  Advances before(70, 0);
  Matrix<float> none;
  none.columns = 70;
  run_back_projection<4>(none, {}, {}, vectors.to);
  for (std::int64_t j = 0; j < 70; ++j) {
    const float m = before.m[j] / 2 + before.g[j];
    ASSERT_EQ(vectors.m[j], m);
    ASSERT_EQ(vectors.u[j], -m / 4);
  }
}

TEST(AdvanceKernel, PassesOnWhatIsNotANumber) {
  auto problem = integers<float>(100, 0);
  Advances vectors(100, 0);
  problem.p[2 * problem.pitch + 40] = not_a_number;
  run_back_projection<4>(problem.basis, {1, 1, 1}, {1, 1, 1}, vectors.to);
  for (std::int64_t j = 0; j < 100; ++j)
    ASSERT_EQ(std::isnan(vectors.u[j]) && std::isnan(vectors.m[j]), j == 40) << j;
}

}  // namespace
}  // namespace dimred::stage2::cuda
