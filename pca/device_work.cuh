#pragma once

#include <algorithm>
#include <cstdint>

#include "pca/device.h"
#include "pca/device_kernels.cuh"

// The kernels that a pass starts for a tile, with their grids. Launch starts one: on a device in
// device_cuda.cu, on a processor in the tests; unnamed, as the kernels are.
namespace dimred::pca {
namespace {

/// Blocks of kThreads threads.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
};

constexpr unsigned blocks_of(std::int64_t size, std::int64_t block) {
  return static_cast<unsigned>((size + block - 1) / block);
}

/// The pass under way.
struct Pass {
  bool combining = false;  // makes P
  bool centred = false;
  std::int64_t rows = 0;                // whose products are summed: of W, or of P
  std::int64_t combination_stride = 0;  // of C's rows
  /// Rows of the sums, of whole squares.
  std::int64_t size() const { return kSide * squares(rows); }
};

inline Pass gram_pass(const DeviceShape& shape, bool centred) {
  return {false, centred, shape.rows, 0};
}

inline Pass components_pass(const DeviceShape& shape, std::int64_t stride) {
  return {true, false, shape.components, stride};
}

/// Of either pass's sums.
inline std::int64_t most_sums(const DeviceShape& shape) {
  const std::int64_t side = kSide * squares(std::max(shape.rows, shape.components));
  return side * side;
}

/// Partial Gram matrices of a tile, wherever it begins.
inline std::int64_t most_blocks(const DeviceShape& shape) {
  return blocks_of(kGramColumns - 1 + shape.tile_columns, kGramColumns);
}

/// What the kernels read and write besides tiles.
struct Buffers {
  double* means = nullptr;                   // [tile_columns]
  double* partial = nullptr;                 // [most_blocks x most_sums]
  double* total = nullptr;                   // [most_sums]
  const double* combinations = nullptr;      // C [rows x combination_stride]
  unsigned long long* not_finite = nullptr;  // least column of such a value
};

/// total += x x' over the tile's columns.
template <class Launch>
void add_gram(const Launch& launch,
              const Pass& pass,
              const Buffers& buffers,
              const Rows& rows,
              const DeviceTile& tile,
              const double* means) {
  const std::int64_t offset = tile.begin % kGramColumns;
  const unsigned blocks = blocks_of(offset + tile.width, kGramColumns);
  const auto side = static_cast<unsigned>(squares(rows.count));
  const std::int64_t size = pass.size();
  launch("gram_blocks",
         Grid{side * (side + 1) / 2, blocks},
         gram_blocks,
         rows,
         tile.width,
         offset,
         means,
         size,
         buffers.partial);
  launch("add_blocks",
         Grid{blocks_of(size * size, kThreads)},
         add_blocks,
         buffers.partial,
         static_cast<int>(blocks),
         size * size,
         buffers.total);
}

/// Adds the Gram matrix of a tile of W.
template <class Launch>
void measure(const Launch& launch,
             const Pass& pass,
             const Buffers& buffers,
             const Rows& w,
             const DeviceTile& tile) {
  launch("column_means",
         Grid{blocks_of(tile.width, kThreads)},
         column_means,
         w,
         tile.width,
         pass.centred,
         static_cast<unsigned long long>(tile.begin),
         buffers.means,
         buffers.not_finite);
  add_gram(launch, pass, buffers, w, tile, buffers.means);
}

/// Makes p = C' w, its rows as far apart as w's, and adds p p'.
template <class Launch>
void combine(const Launch& launch,
             const Pass& pass,
             const Buffers& buffers,
             const Rows& w,
             const DeviceTile& tile,
             float* p) {
  const auto components = static_cast<int>(pass.rows);
  launch("combine_rows",
         Grid{blocks_of(tile.width, kSide), blocks_of(components, kSide)},
         combine_rows,
         buffers.combinations,
         pass.combination_stride,
         components,
         w,
         tile.width,
         p,
         w.stride);
  add_gram(launch, pass, buffers, {p, w.stride, components}, tile, nullptr);
}

/// The pass's work on a tile of W; p as combine().
template <class Launch>
void work_on(const Launch& launch,
             const Pass& pass,
             const Buffers& buffers,
             const Rows& w,
             const DeviceTile& tile,
             float* p) {
  if (pass.combining)
    combine(launch, pass, buffers, w, tile, p);
  else
    measure(launch, pass, buffers, w, tile);
}

}  // namespace
}  // namespace dimred::pca
