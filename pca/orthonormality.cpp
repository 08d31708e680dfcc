#include "pca/orthonormality.h"

#include <algorithm>
#include <span>
#include <vector>

#include "checkpoints/float_formats.h"
#include "pca/dense.h"
#include "pca/exchange.h"
#include "pca/kernels.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/passes.h"

namespace dimred::pca {
namespace {

/// Columns [begin, begin + width) of all rows, as Kernels::widen leaves them in `panel`.
void widen(const Kernels& kernels,
           const Basis& basis,
           std::int64_t begin,
           std::int64_t width,
           double* panel) {
  if (basis.dtype == BasisDtype::float32) {
    kernels.widen(basis.values.data() + begin, basis.columns, basis.components, width, panel);
    return;
  }
  for (std::int64_t i = 0; i < basis.components; ++i) {
    const std::uint16_t* from = basis.bfloats.data() + i * basis.columns + begin;
    double* to = panel + i * kPanelStride;
    std::transform(from, from + width, to, checkpoints::from_bfloat);
    std::fill(to + width, to + padded(width, 8), 0.0);
  }
}

}  // namespace

double measure_orthonormality(const Basis& basis, std::int64_t threads, const Ranks& ranks) {
  const Kernels& kernels = select_kernels(KernelSet::automatic);
  const std::int64_t k = basis.components;
  const std::int64_t rows = padded(k, kernels.row_unit);
  const std::int64_t panels = padded(basis.columns, kPanelColumns) / kPanelColumns;
  std::vector<double> gram =
      ordered_sum(panels, threads, static_cast<std::size_t>(rows * rows), [&]() -> BlockWork {
        Lines<double> panel(static_cast<std::size_t>(rows * kPanelStride));
        return [&, panel](std::int64_t index, std::span<double> partial) mutable {
          const std::int64_t begin = index * kPanelColumns;
          const std::int64_t width = std::min(kPanelColumns, basis.columns - begin);
          widen(kernels, basis, begin, width, panel.data());
          kernels.gram(panel.data(), rows, width, partial.data());
        };
      });
  sum_lower(ranks, gram, k, rows);
  return identity_error(gram, k, rows);
}

}  // namespace dimred::pca
