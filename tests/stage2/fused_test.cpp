// The fused kernels on this processor: what each thread reads, adds and writes; not how fast, and
// not on a device.
#include <gtest/gtest.h>

#include <barrier>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "checkpoints/float_formats.h"
#include "stage2/fused_cuda.h"

// CUDA's names. A block's threads are threads, and blocks come one after another.
// NOLINTBEGIN
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
static thread_local struct { unsigned x; } threadIdx, blockIdx;
static std::barrier block_barrier(dimred::stage2::fused::threads);
static void __syncthreads() { block_barrier.arrive_and_wait(); }
static float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
// NOLINTEND

#include "stage2/fused_kernels.cuh"

namespace dimred::stage2::fused {
namespace {

void run_kernel(std::int64_t blocks, const std::function<void()>& kernel) {
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < threads; ++i) {
    others.emplace_back([&, i] {
      threadIdx.x = i;
      for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        kernel();
        block_barrier.arrive_and_wait();
      }
    });
  }
}

constexpr float untouched = 12345;  // behind what is written
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Small integers, exact in all types and sums; NaN where nothing may be read.
float integer(std::int64_t i, std::int64_t j) { return static_cast<float>((i * 3 + j) % 7 - 3); }

template <class Value>
struct Rows {
  Rows(std::int64_t rows, std::int64_t columns)
      : values(static_cast<std::size_t>(rows * (columns + 5)), checkpoints::stored<Value>(nan)),
        matrix{values.data(), sizeof(Value) == 2, rows, columns, columns + 5} {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        values[static_cast<std::size_t>(i * matrix.pitch + j)] =
            checkpoints::stored<Value>(integer(i, j));
  }
  std::vector<Value> values;
  Matrix matrix;
};

std::vector<float> vector(std::int64_t row, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t j = 0; j < columns; ++j) values.push_back(integer(row, j));
  values.push_back(nan);  // behind the end
  return values;
}

/// Sums of all rows and others, over the tiles.
template <class Value>
std::vector<double> projected(Products in) {
  const auto tiles = tiles_of(in.basis.columns);
  std::vector<double> partial(static_cast<std::size_t>(in.rows * tiles));
  in.partial = partial.data();
  run_kernel(tiles * groups_of(in.rows), [&] { project_tiles<Value>(in); });
  std::vector<double> sums(static_cast<std::size_t>(in.rows));
  for (std::size_t i = 0; i < partial.size(); ++i)
    sums[i / static_cast<std::size_t>(tiles)] += partial[i];
  return sums;
}

template <class Value>
void expect_exact_projections(std::int64_t rows, std::int64_t columns) {
  Rows<Value> p(rows, columns);
  const auto v = vector(20, columns);
  const auto o = vector(30, columns);
  Products in{.basis = p.matrix,
              .others = {o.data(), v.data()},
              .rows = static_cast<int>(rows) + 2,
              .vector = v.data()};
  const auto sums = projected<Value>(in);
  for (std::int64_t i = 0; i < in.rows; ++i) {
    const auto row = i < rows ? i : i == rows ? 30 : 20;
    double exact = 0;
    for (std::int64_t j = 0; j < columns; ++j) exact += integer(row, j) * integer(20, j);
    EXPECT_EQ(sums[static_cast<std::size_t>(i)], exact) << rows << " x " << columns << ", " << i;
  }
}

TEST(FusedKernels, ProjectAllRowsAndVectorsExactlyOnIntegers) {
  for (const std::int64_t columns : {1, 257, 4096, 8200}) {
    expect_exact_projections<float>(9, columns);
    expect_exact_projections<std::uint16_t>(6, columns);
  }
}

TEST(FusedKernels, AddRunsOfEightInFloat64) {
  // Columns 0 and 8 threads are one thread's, in two runs; float32 has no 2^24 + 1.
  std::vector<float> p(tile_columns);
  const std::vector<float> ones(tile_columns, 1);
  p[0] = 0x1p24F;
  p[std::size_t{run_length} * threads] = 1;
  const Matrix matrix{p.data(), false, 1, tile_columns, tile_columns};
  EXPECT_EQ(projected<float>({.basis = matrix, .rows = 1, .vector = ones.data()}),
            std::vector<double>{0x1p24 + 1});
}

template <class Value>
void expect_exact_advance(std::int64_t rows, std::int64_t columns, bool with_weights) {
  Rows<Value> p(rows, columns);
  const auto g = vector(3, columns);
  const auto old_m = vector(4, columns);
  const auto old_w = vector(5, columns);
  auto m = old_m, w = old_w, u = g, start = g;
  for (auto* values : {&m, &w, &u, &start}) values->back() = untouched;
  Advance in{.basis = p.matrix,
             .gradient = g.data(),
             .momentum = m.data(),
             .gamma = 0.5F,
             .alpha = 0.25F,
             .direction = u.data(),
             .weights = with_weights ? w.data() : nullptr,
             .start = start.data()};
  for (std::int64_t i = 0; i < rows; ++i) {
    in.forward[i] = integer(i, 1);
    in.projected[i] = integer(i, 2);
  }
  run_kernel((columns + threads - 1) / threads, [&] { advance_columns<Value>(in); });
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto at = static_cast<std::size_t>(j);
    float forward = 0;
    float projected = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      forward += integer(i, 1) * integer(i, j);
      projected += integer(i, 2) * integer(i, j);
    }
    const float moved = old_m[at] / 2 + (g[at] - projected);
    ASSERT_EQ(m[at], moved) << j;
    ASSERT_EQ(u[at], forward - moved / 4) << j;
    ASSERT_EQ(w[at], with_weights ? old_w[at] + u[at] : old_w[at]) << j;
    ASSERT_EQ(start[at], with_weights ? old_w[at] : g[at]) << j;
  }
  for (const auto* values : {&m, &u, &w, &start}) EXPECT_EQ(values->back(), untouched);
}

TEST(FusedKernels, AdvanceMomentumDirectionAndWeightsExactlyOnIntegers) {
  for (const std::int64_t rows : {0, 3, 17}) {
    for (const bool with_weights : {true, false}) {
      expect_exact_advance<float>(rows, 600, with_weights);
      expect_exact_advance<std::uint16_t>(rows, 257, with_weights);
    }
  }
}

}  // namespace
}  // namespace dimred::stage2::fused
