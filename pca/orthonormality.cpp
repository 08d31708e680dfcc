#include "pca/orthonormality.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "checkpoints/float_formats.h"
#include "pca/dense.h"
#include "pca/kernels.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/pass.h"

namespace dimred::pca {
namespace {

/// Columns [begin, begin + width) of all rows, as TileKernels::widen leaves them in `panel`.
void widen(const Kernels& kernels,
           const Basis& basis,
           std::int64_t begin,
           std::int64_t width,
           double* panel) {
  if (basis.dtype == BasisDtype::float32) {
    kernels.float32.widen(
        {basis.values.data() + begin, basis.columns, basis.header.components, width}, panel);
    return;
  }
  for (std::int64_t i = 0; i < basis.header.components; ++i) {
    const std::uint16_t* from = basis.bfloats.data() + i * basis.columns + begin;
    double* to = panel + i * panel_stride;
    std::transform(from, from + width, to, checkpoints::from_bfloat);
    std::fill(to + width, to + padded(width, 8), 0.0);
  }
}

/// P P' of columns [begin, end): the lower triangle, [rows x rows].
std::vector<double> gram_of(const Kernels& kernels,
                            const Basis& basis,
                            const BasisBlock& block,
                            std::int64_t threads) {
  const auto rows = padded(basis.header.components, kernels.row_unit);
  const auto panels = ceiling(block.end - block.begin, panel_columns);
  return ordered_sum(panels, threads, rows * rows, [&]() -> BlockWork {
    Lines<double> panel(rows * panel_stride);
    return [&, panel](std::int64_t index, std::span<double> partial) mutable {
      const auto begin = block.begin + index * panel_columns;
      const auto width = std::min(panel_columns, block.end - begin);
      widen(kernels, basis, begin, width, panel.data());
      kernels.gram(panel.data(), rows, width, partial.data());
    };
  });
}

/// Lower triangles of all blocks one behind the other, packed, of all ranks.
std::vector<double> grams_of(const Basis& basis, std::int64_t threads, Communicator& communicator) {
  const auto& kernels = select_kernels(KernelSet::automatic);
  const auto k = basis.header.components;
  const auto rows = padded(k, kernels.row_unit);
  std::vector<double> packed(basis.block_count() * k * (k + 1) / 2);
  for (const auto& block : basis.blocks) {
    const auto gram = lower_of(gram_of(kernels, basis, block, threads), k, rows);
    double* to = packed.data() + block.index * std::ssize(gram);
    for (const double value : gram) *to++ += value;
  }
  communicator.sum(packed);
  return packed;
}

/// The largest diagonal entry of A where it is diagonal with whole numbers, up to rounding; else 0.
std::int64_t whole_diagonal(std::span<const double> lower, std::int64_t k) {
  double largest = 0;
  double off = 0;
  const double* at = lower.data();
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < i; ++j) off = std::max(off, std::abs(*at++));
    const double square = *at++;
    largest = std::max(largest, square);
    off = std::max(off, std::abs(square - std::round(square)));
  }
  return off <= 0.01 * largest && off < 0.25 ? std::llround(largest) : 0;
}

}  // namespace

Orthonormality measure_orthonormality(const Basis& basis,
                                      std::int64_t threads,
                                      Communicator& communicator) {
  const auto grams = grams_of(basis, threads, communicator);
  const auto k = basis.header.components;
  const std::size_t size = k * (k + 1) / 2;
  const bool in_blocks = !basis.header.blocks.empty();  // one of them may be all
  Orthonormality result;
  for (std::size_t at = 0; at < grams.size(); at += size) {
    const std::span lower = std::span(grams).subspan(at, size);
    result.error = std::max(result.error, identity_error(lower, k, in_blocks));
  }
  if (!in_blocks) result.apparent_blocks = whole_diagonal(grams, k);
  return result;
}

}  // namespace dimred::pca
