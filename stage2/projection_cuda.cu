#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "stage2/back_project_kernels.cuh"
#include "stage2/project_kernels.cuh"

namespace dimred::stage2::cuda {
namespace {

void check_launch(const char* kernel) {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string("[stage2::cuda] ") + kernel + ": " +
                           cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}

void require_rows(std::int64_t rows) {
  if (rows <= max_components) return;
  throw std::invalid_argument("[stage2::cuda] needs at most " + std::to_string(max_components) +
                              " components, received " + std::to_string(rows));
}

template <class Value>
Coefficients coefficients_of(const Matrix<Value>& basis, const float* first, const float* second) {
  require_rows(basis.rows);
  Coefficients by{};
  std::copy_n(first, basis.rows, by.first);
  std::copy_n(second, basis.rows, by.second);
  return by;
}

template <int width, class Value, class Finish>
void launch(const Matrix<Value>& basis,
            const Coefficients& by,
            const Finish& finish,
            cudaStream_t stream) {
  constexpr std::int64_t block = threads * width;
  const auto blocks = static_cast<unsigned>((basis.columns + block - 1) / block);
  back_project_columns<width><<<blocks, threads, 0, stream>>>(basis, by, finish);
  check_launch("back_project_columns");
}

template <class Value, class Finish>
void launch(const Matrix<Value>& basis,
            const Coefficients& by,
            const Finish& finish,
            bool aligned,
            void* stream) {
  if (basis.columns == 0) return;  // no empty grids
  auto* on = static_cast<cudaStream_t>(stream);
  if (aligned && on_boundary(basis)) {
    launch<sizeof(float4) / sizeof(Value)>(basis, by, finish, on);
  } else {
    launch<1>(basis, by, finish, on);
  }
}

}  // namespace

std::int64_t partial_sums(std::int64_t rows, std::int64_t columns) {
  return rows * tiles_of(columns);
}

template <class Value>
void project(const Matrix<Value>& basis,
             const std::vector<const float*>& others,
             const float* vector,
             double* partial,
             double* sums,
             void* stream) {
  require_rows(basis.rows);
  auto* on = static_cast<cudaStream_t>(stream);
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
      project_tiles<sizeof(float4) / sizeof(Value)><<<blocks, threads, 0, on>>>(in);
    } else {
      project_tiles<1><<<blocks, threads, 0, on>>>(in);
    }
    check_launch("project_tiles");
  }
  add_partials<<<static_cast<unsigned>(in.rows), threads, 0, on>>>(partial, in.tiles, sums);
  check_launch("add_partials");
}

template <class Value>
void back_project(const Matrix<Value>& basis,
                  const float* first,
                  const float* second,
                  float* out1,
                  float* out2,
                  void* stream) {
  const bool aligned = on_boundary(out1) && on_boundary(out2);
  launch(basis, coefficients_of(basis, first, second), TwoVectors{out1, out2}, aligned, stream);
}

template <class Value>
void advance(const Matrix<Value>& basis,
             const float* first,
             const float* second,
             const Advance& to,
             void* stream) {
  const bool aligned = on_boundary(to.gradient) && on_boundary(to.momentum) &&
                       on_boundary(to.direction) && on_boundary(to.weights) &&
                       on_boundary(to.start);
  launch(basis, coefficients_of(basis, first, second), Advanced{to}, aligned, stream);
}

template void project(
    const Matrix<float>&, const std::vector<const float*>&, const float*, double*, double*, void*);
template void project(const Matrix<std::uint16_t>&,
                      const std::vector<const float*>&,
                      const float*,
                      double*,
                      double*,
                      void*);
template void back_project(const Matrix<float>&, const float*, const float*, float*, float*, void*);
template void back_project(
    const Matrix<std::uint16_t>&, const float*, const float*, float*, float*, void*);
template void advance(const Matrix<float>&, const float*, const float*, const Advance&, void*);
template void advance(
    const Matrix<std::uint16_t>&, const float*, const float*, const Advance&, void*);

}  // namespace dimred::stage2::cuda
