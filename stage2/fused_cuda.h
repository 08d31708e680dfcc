#pragma once

#include <cstdint>

// Launchers of the kernels of fused_kernels.cuh, free of torch, in libdimred_cuda.so where nvcc was
// there (cuda/cuda.h). Pointers are on the device; `stream` is a cudaStream_t. Every call returns
// when its kernel is enqueued.
namespace dimred::stage2::fused {

constexpr int max_components = 128;  // coefficients travel as a kernel's parameters
constexpr int max_others = 2;        // vectors beside P in one project()
constexpr int threads = 256;         // of a block
constexpr int lane_columns = 16;     // of a tile, that one thread takes
constexpr int tile_columns = threads * lane_columns;

/// Row i begins at value i pitch: float32, or bfloat16.
struct Matrix {
  const void* values = nullptr;
  bool bfloat16 = false;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t pitch = 0;
};

constexpr std::int64_t tiles_of(std::int64_t columns) {
  return (columns + tile_columns - 1) / tile_columns;
}

/// partial[row, tile] = the tile's part of row'v, for the rows of P and the others behind them.
struct Products {
  Matrix basis;
  const float* others[max_others] = {};
  int rows = 0;  // of P and others
  const float* vector = nullptr;
  double* partial = nullptr;  // [rows x tiles]
};
void launch(const Products& in, void* stream);

/// m <- gamma m + (g - P' g_k), u = P'd - alpha m, and unless `weights` is null, start = w, w <- w
/// + u; [columns] each.
struct Advance {
  Matrix basis;
  float forward[max_components] = {};    // d
  float projected[max_components] = {};  // g_k
  const float* gradient = nullptr;       // g
  float* momentum = nullptr;             // m, in place
  float gamma = 0;
  float alpha = 0;             // 0: u = P'd
  float* direction = nullptr;  // u
  float* weights = nullptr;    // w, in place
  float* start = nullptr;      // its copy
};
void launch(const Advance& in, void* stream);

}  // namespace dimred::stage2::fused
