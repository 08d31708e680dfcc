#pragma once

#include <algorithm>

#include "stage2/kernel_columns.cuh"

// project() of projection_cuda.h.
namespace dimred::stage2::cuda {
namespace {

constexpr int warp_size = 32;
constexpr int warps = threads / warp_size;
constexpr int lane_columns = 16;  // of the vector, that a thread keeps in registers for all rows
constexpr int warp_columns = warp_size * lane_columns;
constexpr int tile_columns = warps * warp_columns;
constexpr int run = 8;  // products that are summed in float32
constexpr int max_rows = max_components + max_others;

constexpr std::int64_t tiles_of(std::int64_t columns) {
  return (columns + tile_columns - 1) / tile_columns;
}

/// Rows of a tile that one block takes: all of them where the tiles alone keep a large device busy,
/// otherwise fewer. The sums do not depend on it.
constexpr int group_rows_of(int rows, std::int64_t tiles) {
  constexpr std::int64_t blocks = 1024;  // two waves of 256 threads on 132 multiprocessors
  if (tiles >= blocks) return rows;
  const std::int64_t even = (rows * tiles / blocks + 1) / 2 * 2;
  return static_cast<int>(std::clamp<std::int64_t>(even, 2, std::max(2, rows)));
}

/// Arguments of project_tiles.
template <class Value>
struct Products {
  Matrix<Value> basis;
  const float* others[max_others] = {};
  int rows = 0;  // of P and others
  const float* vector = nullptr;
  long long tiles = 0;
  int group_rows = 0;         // rows that one block takes of a tile
  double* partial = nullptr;  // [rows x tiles]
};

/// A lane's columns of a row that has `left` of them: packs of `width`, one after the other over
/// the warp. Zeros behind the end.
template <int width, bool whole, class Value>
__device__ void load_lane(const Value* row, long long left, int lane, float* to) {
  for (int i = 0; i < lane_columns; i += width) {
    const int column = i * warp_size + lane * width;
    if (whole || column + width <= left) {
      load<width>(row + column, to + i);
    } else {
      for (int j = 0; j < width; ++j) to[i + j] = column + j < left ? widened(row[column + j]) : 0;
    }
  }
}

__device__ double lane_dot(const float* a, const float* b) {
  double sum = 0;
  for (int i = 0; i < lane_columns; i += run) {
    float part = 0;
    for (int j = i; j < i + run; ++j) part = fmaf(a[j], b[j], part);
    sum += part;
  }
  return sum;
}

/// Of the whole warp, in lane 0.
__device__ double warp_sum(double value) {
  for (int half = warp_size / 2; half > 0; half /= 2)
    value += __shfl_down_sync(0xffffffffU, value, half);
  return value;
}

/// sums[(row - first) warps + warp] of one warp's columns, for rows [first, last).
template <int width, bool whole, class Value>
__device__ void dot_rows(
    const Products<Value>& in, long long begin, int first, int last, double* sums) {
  const long long left = in.basis.columns - begin;
  const int lane = threadIdx.x % warp_size;
  double* own = sums + threadIdx.x / warp_size;
  float vector[lane_columns];
  load_lane<width, whole>(in.vector + begin, left, lane, vector);
  const int rows = in.basis.rows < last ? static_cast<int>(in.basis.rows) : last;
  for (int i = first; i < rows; i += 2) {  // two at once, the last one maybe twice
    const int j = i + 1 < rows ? i + 1 : i;
    float one[lane_columns];
    float two[lane_columns];
    load_lane<width, whole>(in.basis.values + i * in.basis.pitch + begin, left, lane, one);
    load_lane<width, whole>(in.basis.values + j * in.basis.pitch + begin, left, lane, two);
    const double a = warp_sum(lane_dot(one, vector));
    const double b = warp_sum(lane_dot(two, vector));
    if (lane == 0) own[(i - first) * warps] = a;
    if (lane == 0) own[(j - first) * warps] = b;
  }
  for (int i = rows > first ? rows : first; i < last; ++i) {
    float other[lane_columns];
    load_lane<width, whole>(in.others[i - in.basis.rows] + begin, left, lane, other);
    const double a = warp_sum(lane_dot(other, vector));
    if (lane == 0) own[(i - first) * warps] = a;
  }
}

/// partial[row, tile] = the tile's part of row'v. A block takes group_rows rows of one tile; the
/// vector's part stays in registers meanwhile.
template <int width, class Value>
__global__ void __launch_bounds__(threads)
    project_tiles(const __grid_constant__ Products<Value> in) {
  __shared__ double sums[max_rows * warps];
  const int groups = (in.rows + in.group_rows - 1) / in.group_rows;
  const long long tile = blockIdx.x / groups;
  const int first = static_cast<int>(blockIdx.x % groups) * in.group_rows;
  const int last = first + in.group_rows < in.rows ? first + in.group_rows : in.rows;
  const long long begin = tile * tile_columns + threadIdx.x / warp_size * warp_columns;
  if (begin + warp_columns <= in.basis.columns) {
    dot_rows<width, true>(in, begin, first, last, sums);
  } else {
    dot_rows<width, false>(in, begin, first, last, sums);
  }
  __syncthreads();
  const int row = first + static_cast<int>(threadIdx.x);
  if (row >= last) return;
  double total = 0;
  for (int i = 0; i < warps; ++i) total += sums[threadIdx.x * warps + i];
  in.partial[row * in.tiles + tile] = total;
}

/// sums[row] = sum over tiles of partial[row, tile], by one block a row, in a fixed order.
__global__ void __launch_bounds__(threads)
    add_partials(const double* partial, long long tiles, double* sums) {
  __shared__ double parts[threads];
  const double* row = partial + blockIdx.x * tiles;
  double sum = 0;
  for (long long i = threadIdx.x; i < tiles; i += threads) sum += row[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

}  // namespace
}  // namespace dimred::stage2::cuda
