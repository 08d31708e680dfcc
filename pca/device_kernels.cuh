#pragma once

#include <cstdint>

// The kernels of device_cuda.cu. Plain CUDA, and no more of it than the tests can run on a
// processor (tests/tools/host_grid.h); unnamed, so that theirs and the device's never meet.
namespace dimred::pca {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 64;           // of a square of results, 4 x 4 a thread
constexpr int kDepth = 32;          // terms of their sums that lie in shared memory at a time
constexpr int kPitch = kSide + 1;   // so that no two threads of a half-warp want one bank
constexpr int kGramColumns = 1024;  // of a partial Gram matrix

constexpr std::int64_t squares(std::int64_t size) { return (size + kSide - 1) / kSide; }

/// Float32 rows `stride` apart.
struct Rows {
  const float* values = nullptr;
  long long stride = 0;
  int count = 0;
};

/// A thread's results: rows y + 16 i, columns x + 16 j of its square.
struct Square {
  double sums[4][4];
  __device__ static int x() { return static_cast<int>(threadIdx.x) % 16; }
  __device__ static int y() { return static_cast<int>(threadIdx.x) / 16; }
};

/// sums += left' right over kDepth terms, in order.
__device__ void multiply_add(const double (*left)[kPitch],
                             const double (*right)[kPitch],
                             Square& square) {
  for (int d = 0; d < kDepth; ++d) {
    double a[4];
    double b[4];
    for (int i = 0; i < 4; ++i) a[i] = left[d][Square::y() + 16 * i];
    for (int j = 0; j < 4; ++j) b[j] = right[d][Square::x() + 16 * j];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) square.sums[i][j] += a[i] * b[j];
  }
}

/// mean[c] of the column over all rows if `centred`, else 0. *bad becomes the least column of W
/// (`begin` is the tile's first) whose mean is not finite, which a value that is not finite makes
/// so.
__global__ void __launch_bounds__(kThreads) column_means(const Rows w,
                                                         long long width,
                                                         bool centred,
                                                         unsigned long long begin,
                                                         double* mean,
                                                         unsigned long long* bad) {
  const long long column = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  double sum = 0;
  for (int i = 0; i < w.count; ++i) sum += w.values[i * w.stride + column];
  const double value = sum / w.count;
  if (!(value - value == 0)) atomicMin(bad, begin + static_cast<unsigned long long>(column));
  mean[column] = centred ? value : 0;
}

/// to[d][r] = row first + r, column begin + d, less the column's mean; 0 beyond both ends.
__device__ void load_centred(const Rows& w,
                             int first,
                             long long begin,
                             long long end,
                             const double* mean,
                             double (*to)[kPitch]) {
  const int d = static_cast<int>(threadIdx.x) % kDepth;
  const long long column = begin + d;
  const double shift = mean != nullptr && column < end ? mean[column] : 0;
  for (int r = static_cast<int>(threadIdx.x) / kDepth; r < kSide; r += kThreads / kDepth) {
    const bool inside = first + r < w.count && column < end;
    to[d][r] = inside ? w.values[(first + r) * w.stride + column] - shift : 0;
  }
}

/// partial[block, i, j] [blocks x size x size] = sum of x_i x_j over one block of columns, x = w -
/// mean (null: 0), for the squares on and below the diagonal: grid (squares, blocks). Blocks are
/// counted from column 0 of W, and the tile's first column is the `offset`-th of its block.
__global__ void __launch_bounds__(kThreads) gram_blocks(const Rows w,
                                                        long long width,
                                                        long long offset,
                                                        const double* mean,
                                                        long long size,
                                                        double* partial) {
  __shared__ double left[kDepth][kPitch];
  __shared__ double right[kDepth][kPitch];
  int i = 0;
  int j = static_cast<int>(blockIdx.x);
  for (; j > i; ++i) j -= i + 1;
  const long long start = static_cast<long long>(blockIdx.y) * kGramColumns - offset;
  const long long end = start + kGramColumns < width ? start + kGramColumns : width;
  Square square = {};
  for (long long begin = start > 0 ? start : 0; begin < end; begin += kDepth) {
    load_centred(w, i * kSide, begin, end, mean, left);
    if (i != j) load_centred(w, j * kSide, begin, end, mean, right);
    __syncthreads();
    multiply_add(left, i != j ? right : left, square);
    __syncthreads();
  }
  double* block = partial + blockIdx.y * size * size;
  for (int r = 0; r < 4; ++r) {
    double* row = block + (i * kSide + Square::y() + 16 * r) * size + j * kSide + Square::x();
    for (int c = 0; c < 4; ++c) row[16 * c] = square.sums[r][c];
  }
}

/// total += partial[0] + partial[1] + ..., in this order; [size] each.
__global__ void __launch_bounds__(kThreads)
    add_blocks(const double* partial, int blocks, long long size, double* total) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  double sum = total[i];
  for (int block = 0; block < blocks; ++block) sum += partial[block * size + i];
  total[i] = sum;
}

/// p = c' w, rounded to float32, [components x width]: grid (squares of width, squares of
/// components). c [w.count x c_stride].
__global__ void __launch_bounds__(kThreads) combine_rows(const double* c,
                                                         long long c_stride,
                                                         int components,
                                                         const Rows w,
                                                         long long width,
                                                         float* p,
                                                         long long p_stride) {
  __shared__ double left[kDepth][kPitch];
  __shared__ double right[kDepth][kPitch];
  const int first = static_cast<int>(blockIdx.y) * kSide;
  const long long begin = static_cast<long long>(blockIdx.x) * kSide;
  const int lane = static_cast<int>(threadIdx.x) % kSide;
  Square square = {};
  for (int row = 0; row < w.count; row += kDepth) {
    for (int d = static_cast<int>(threadIdx.x) / kSide; d < kDepth; d += kThreads / kSide) {
      const bool inside = row + d < w.count;
      const bool has_component = inside && first + lane < components;
      const bool has_column = inside && begin + lane < width;
      left[d][lane] = has_component ? c[(row + d) * c_stride + first + lane] : 0;
      right[d][lane] = has_column ? w.values[(row + d) * w.stride + begin + lane] : 0;
    }
    __syncthreads();
    multiply_add(left, right, square);
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    const int component = first + Square::y() + 16 * r;
    for (int s = 0; s < 4; ++s) {
      const long long column = begin + Square::x() + 16 * s;
      if (component < components && column < width)
        p[component * p_stride + column] = static_cast<float>(square.sums[r][s]);
    }
  }
}

}  // namespace
}  // namespace dimred::pca
