#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "stage2/back_project_kernels.cuh"
#include "stage2/project_kernels.cuh"

namespace dimred::stage2::cuda {
namespace {

template <class Value>
constexpr int widest = sizeof(float4) / sizeof(Value);  // values in 16 bytes

void check_launch(const char* kernel) {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string("[stage2::cuda] ") + kernel + ": " +
                           cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}

template <class Value>
void launch_products(const Matrix<Value>& basis,
                     const std::vector<const float*>& others,
                     const float* vector,
                     double* partial,
                     double* sums,
                     cudaStream_t stream) {
  Products<Value> in;
  in.basis = basis;
  in.rows = static_cast<int>(basis.rows) + static_cast<int>(others.size());
  in.vector = vector;
  in.tiles = tiles_of(basis.columns);
  in.group_rows = group_rows_of(in.rows, in.tiles);
  in.partial = partial;
  std::copy(others.begin(), others.end(), in.others);
  if (in.rows == 0) return;
  if (in.tiles > 0) {
    const int groups = (in.rows + in.group_rows - 1) / in.group_rows;
    const auto blocks = static_cast<unsigned>(in.tiles * groups);
    bool aligned = on_boundary(basis) && on_boundary(vector);
    for (const float* other : others) aligned = aligned && on_boundary(other);
    if (aligned) {
      project_tiles<widest<Value>><<<blocks, threads, 0, stream>>>(in);
    } else {
      project_tiles<1><<<blocks, threads, 0, stream>>>(in);
    }
    check_launch("project_tiles");
  }
  add_partials<<<static_cast<unsigned>(in.rows), threads, 0, stream>>>(partial, in.tiles, sums);
  check_launch("add_partials");
}

template <int width, class Value, class Result>
void launch_columns(const Matrix<Value>& basis,
                    const Coefficients& by,
                    const Result& result,
                    cudaStream_t stream) {
  constexpr std::int64_t block = threads * width;
  const auto blocks = static_cast<unsigned>((basis.columns + block - 1) / block);
  if (blocks == 0) return;  // no empty grids
  back_project_columns<width><<<blocks, threads, 0, stream>>>(basis, by, result);
  check_launch("back_project_columns");
}

/// `aligned`: the result's vectors begin on boundaries.
template <class Value, class Result>
void launch_columns(const Matrix<Value>& basis,
                    const Coefficients& by,
                    const Result& result,
                    bool aligned,
                    void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  if (aligned && on_boundary(basis)) {
    launch_columns<widest<Value>>(basis, by, result, on);
  } else {
    launch_columns<1>(basis, by, result, on);
  }
}

}  // namespace

std::int64_t partial_sums(std::int64_t rows, std::int64_t columns) {
  return rows * tiles_of(columns);
}

void project(const Basis& basis,
             const std::vector<const float*>& others,
             const float* vector,
             double* partial,
             double* sums,
             void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  std::visit([&](const auto& p) { launch_products(p, others, vector, partial, sums, on); }, basis);
}

void back_project(
    const Basis& basis, const Coefficients& by, float* out1, float* out2, void* stream) {
  const bool aligned = on_boundary(out1) && on_boundary(out2);
  const TwoVectors result{out1, out2};
  std::visit([&](const auto& p) { launch_columns(p, by, result, aligned, stream); }, basis);
}

void advance(const Basis& basis, const Coefficients& by, const Advance& to, void* stream) {
  const bool aligned = on_boundary(to.gradient) && on_boundary(to.momentum) &&
                       on_boundary(to.direction) && on_boundary(to.weights) &&
                       on_boundary(to.start);
  std::visit([&](const auto& p) { launch_columns(p, by, to, aligned, stream); }, basis);
}

}  // namespace dimred::stage2::cuda
