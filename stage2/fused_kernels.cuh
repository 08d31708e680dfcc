#pragma once

#include "stage2/fused_cuda.h"

// Plain CUDA, and no more of it than tests/stage2/fused_test.cpp can run on a processor.
namespace dimred::stage2::fused {
namespace {

constexpr int rows_at_once = 8;  // asked for before the first is used, which hides the latency
constexpr int run_length = 8;    // products that are summed in float32

constexpr int groups_of(int rows) { return (rows + rows_at_once - 1) / rows_at_once; }

/// bfloat16 is the upper half of a float32.
__device__ float widened(float value) { return value; }
__device__ float widened(std::uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

/// A thread's columns of row'v: `left` of the row from its first one on, `threads` apart.
template <class Value>
__device__ double lane_dot(const Value* row, const float* vector, long long left) {
  double sum = 0;
  for (int i = 0; i < lane_columns; i += run_length) {
    float part = 0;
    for (int j = i; j < i + run_length; ++j) {
      const int column = j * threads;
      if (column < left) part = fmaf(widened(row[column]), vector[j], part);
    }
    sum += part;
  }
  return sum;
}

/// A block takes eight rows of one tile.
template <class Value>
__global__ void __launch_bounds__(threads) project_tiles(const __grid_constant__ Products in) {
  constexpr int lanes = threads / rows_at_once;
  __shared__ double sums[rows_at_once][threads];
  const int groups = groups_of(in.rows);
  const long long tile = blockIdx.x / groups;
  const int first = static_cast<int>(blockIdx.x % groups) * rows_at_once;
  const long long begin = tile * tile_columns + threadIdx.x;
  const long long left = in.basis.columns - begin;
  float vector[lane_columns];
  for (int i = 0; i < lane_columns; ++i) {
    const int column = i * threads;
    vector[i] = column < left ? in.vector[begin + column] : 0;
  }
  for (int i = 0; i < rows_at_once && first + i < in.rows; ++i) {
    const int row = first + i;
    const Value* values = static_cast<const Value*>(in.basis.values) + row * in.basis.pitch;
    sums[i][threadIdx.x] = row < in.basis.rows
                               ? lane_dot(values + begin, vector, left)
                               : lane_dot(in.others[row - in.basis.rows] + begin, vector, left);
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  if (first + i < in.rows)
    for (int j = lane + lanes; j < threads; j += lanes) sums[i][lane] += sums[i][j];
  __syncthreads();
  if (lane != 0 || first + i >= in.rows) return;
  for (int j = 1; j < lanes; ++j) sums[i][0] += sums[i][j];
  in.partial[(first + i) * tiles_of(in.basis.columns) + tile] = sums[i][0];
}

/// A thread takes one column.
template <class Value>
__global__ void __launch_bounds__(threads) advance_columns(const __grid_constant__ Advance in) {
  const long long column = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
  if (column >= in.basis.columns) return;
  const Value* p = static_cast<const Value*>(in.basis.values) + column;
  float forward = 0;
  float projected = 0;
  for (int i = 0; i < in.basis.rows; i += rows_at_once) {
    float part[rows_at_once];
    for (int r = 0; r < rows_at_once; ++r)
      part[r] = i + r < in.basis.rows ? widened(p[(i + r) * in.basis.pitch]) : 0;
    for (int r = 0; r < rows_at_once; ++r) {
      forward = fmaf(in.forward[i + r], part[r], forward);
      projected = fmaf(in.projected[i + r], part[r], projected);
    }
  }
  const float m = fmaf(in.gamma, in.momentum[column], in.gradient[column] - projected);
  const float u = in.alpha == 0 ? forward : fmaf(-in.alpha, m, forward);
  in.momentum[column] = m;
  in.direction[column] = u;
  if (in.weights == nullptr) return;
  in.start[column] = in.weights[column];
  in.weights[column] += u;
}

}  // namespace
}  // namespace dimred::stage2::fused
