#pragma once

#include "stage2/kernel_columns.cuh"

// back_project() and advance() of projection_cuda.h: one kernel with two ends.
namespace dimred::stage2::cuda {
namespace {

constexpr int rows_at_once = 8;

/// Both right-hand sides as they are.
struct TwoVectors {
  float* first = nullptr;
  float* second = nullptr;
};

template <int width>
__device__ void take(const TwoVectors& to, long long column, const float* a, const float* b) {
  store<width>(to.first + column, a);
  store<width>(to.second + column, b);
}

/// Both put to use: a = P'd, b = P'g_k.
template <int width>
__device__ void take(const Advance& to, long long column, const float* a, const float* b) {
  float g[width];
  float m[width];
  float u[width];
  load<width>(to.gradient + column, g);
  load<width>(to.momentum + column, m);
  for (int i = 0; i < width; ++i) {
    m[i] = fmaf(to.gamma, m[i], g[i] - b[i]);
    u[i] = to.alpha == 0 ? a[i] : fmaf(-to.alpha, m[i], a[i]);
  }
  store<width>(to.momentum + column, m);
  store<width>(to.direction + column, u);
  if (to.weights == nullptr) return;
  float w[width];
  load<width>(to.weights + column, w);
  store<width>(to.start + column, w);
  for (int i = 0; i < width; ++i) w[i] += u[i];
  store<width>(to.weights + column, w);
}

/// a += first' rows, b += second' rows in `width` columns, for `count` rows from row `i` on. All
/// are asked for before the first is used: so many bytes under way fill the memory's latency.
template <int count, int width, class Value>
__device__ void add_rows(const Matrix<Value>& basis,
                         const Coefficients& by,
                         long long column,
                         int i,
                         float* a,
                         float* b) {
  float p[count][width];
  for (int r = 0; r < count; ++r) load<width>(basis.values + (i + r) * basis.pitch + column, p[r]);
  for (int r = 0; r < count; ++r) {
    for (int j = 0; j < width; ++j) {
      a[j] = fmaf(by.first[i + r], p[r][j], a[j]);
      b[j] = fmaf(by.second[i + r], p[r][j], b[j]);
    }
  }
}

/// a = P' first, b = P' second in `width` columns from `column` on.
template <int width, class Value>
__device__ void combine(
    const Matrix<Value>& basis, const Coefficients& by, long long column, float* a, float* b) {
  for (int j = 0; j < width; ++j) a[j] = b[j] = 0;
  int i = 0;
  for (; i + rows_at_once <= basis.rows; i += rows_at_once)
    add_rows<rows_at_once, width>(basis, by, column, i, a, b);
  for (; i < basis.rows; ++i) add_rows<1, width>(basis, by, column, i, a, b);
}

/// One thread for `width` columns.
template <int width, class Value, class Result>
__global__ void __launch_bounds__(threads)
    back_project_columns(const __grid_constant__ Matrix<Value> basis,
                         const __grid_constant__ Coefficients by,
                         const __grid_constant__ Result result) {
  long long column = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * width;
  float a[width];
  float b[width];
  if (column + width <= basis.columns) {
    combine<width>(basis, by, column, a, b);
    take<width>(result, column, a, b);
    return;
  }
  for (; column < basis.columns; ++column) {
    combine<1>(basis, by, column, a, b);
    take<1>(result, column, a, b);
  }
}

}  // namespace
}  // namespace dimred::stage2::cuda
