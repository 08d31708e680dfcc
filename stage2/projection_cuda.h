#pragma once

#include <cstdint>
#include <variant>
#include <vector>

// What launches the kernels of stage 2, free of torch: the algebra of projection.h on a CUDA
// device. Compiled from projection_cuda.cu where nvcc is there, else from
// projection_cuda_unavailable.cpp, whose functions throw std::runtime_error. Pointers are on the
// device unless they are said to be on the host; `stream` is a cudaStream_t. Every call returns
// when its kernels are enqueued: nothing is allocated, copied or waited for.
namespace dimred::stage2::cuda {

/// k at most: coefficients travel as a kernel's parameters.
constexpr int max_components = 128;
/// Vectors beside P in one project().
constexpr int max_others = 2;

/// Row i begins at values + i pitch. Value: float, or std::uint16_t for the bits of bfloat16.
template <class Value>
struct Matrix {
  const Value* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t pitch = 0;  // >= columns; rows on 16-byte boundaries are read four times as fast
};

/// P, of at most max_components rows.
using Basis = std::variant<Matrix<float>, Matrix<std::uint16_t>>;

/// Coefficients [rows] of two right-hand sides, on the host.
struct Coefficients {
  float first[max_components] = {};
  float second[max_components] = {};
};

/// What changes with P' g_k known, [columns] each: m <- gamma m + (g - P' g_k), u = P'd - alpha m,
/// and unless `weights` is null, start = w, w <- w + u.
struct Advance {
  const float* gradient = nullptr;  // g
  float* momentum = nullptr;        // m, in place
  float gamma = 0;
  float alpha = 0;             // 0: u = P'd
  float* direction = nullptr;  // u
  float* weights = nullptr;    // w, in place
  float* start = nullptr;      // its copy
};

/// Float64 numbers of workspace that project() takes for so many rows, `others` included.
std::int64_t partial_sums(std::int64_t rows, std::int64_t columns);

/// sums [rows + others] = P v and o'v, from one read of P, v and each o [columns].
/// Sums over fixed tiles of 4096 columns, added in order: the same bits on any device. Products are
/// summed in float32 eight at a time (other eights where rows lie on other boundaries) and in
/// float64 from there on: |error| <= 8 2^-24 sum_j |p_j v_j|, to 2^-40 of that sum. partial
/// [partial_sums(rows + others, columns)].
void project(const Basis& basis,
             const std::vector<const float*>& others,
             const float* vector,
             double* partial,
             double* sums,
             void* stream);

/// out1 = P' first, out2 = P' second [columns]. ONE read of P.
/// Summed in float32 in the order of the rows: |error| <= k 2^-24 sum_i |c_i p_ij|.
void back_project(
    const Basis& basis, const Coefficients& by, float* out1, float* out2, void* stream);

/// P' first and P' second put to use at once: as d and g_k of `to`. ONE read of P, g, m and w.
void advance(const Basis& basis, const Coefficients& by, const Advance& to, void* stream);

}  // namespace dimred::stage2::cuda
