#include <algorithm>
#include <cmath>
#include <span>

#include "pca/device_passes.h"
#include "pca/lines.h"
#include "pca/ordered_sum.h"
#include "pca/passes.h"
#include "support/errors.h"

namespace dimred::pca {
namespace {

std::int64_t bytes_per_thread(std::int64_t n,
                              std::int64_t k,
                              std::int64_t tile_width,
                              std::int64_t write_width) {
  const std::int64_t floats =
      n * (tile_width + kColumnSlack) + padded(k, kComponentUnit) * (write_width + kColumnSlack);
  const std::int64_t doubles = std::max(n, k) * kPanelStride + n * kColumnSlack;
  return 4 * floats + 8 * doubles;
}

/// The diagonal of a sum of products, which a value that is not finite spoils for good.
bool finite_diagonal(std::span<const double> gram, std::int64_t rows) {
  for (std::size_t i = 0; i < gram.size(); i += static_cast<std::size_t>(rows) + 1) {
    if (!std::isfinite(gram[i])) return false;
  }
  return true;
}

/// Adds one block's share of the Gram matrix.
class GramWork {
 public:
  explicit GramWork(const PassPlan& plan)
      : plan_(plan),
        rows_(plan.source->rows()),
        stride_(plan.tile_width + kColumnSlack),
        tile_(static_cast<std::size_t>(rows_ * stride_)),
        panel_(static_cast<std::size_t>(padded(rows_, plan.kernels->row_unit) * kPanelStride)) {}

  void operator()(std::int64_t block, std::span<double> partial) {
    const auto [first, end] = plan_.block(block, kBlockColumns);
    for (std::int64_t begin = first; begin < end; begin += plan_.tile_width) {
      const std::int64_t width = std::min(plan_.tile_width, end - begin);
      plan_.source->read_tile(begin, width, tile_.data(), stride_);
      for (std::int64_t c = 0; c < width; c += kPanelColumns) {
        add_panel(begin + c, tile_.data() + c, std::min(kPanelColumns, width - c), partial);
      }
    }
  }

 private:
  void add_panel(std::int64_t begin,
                 const float* tile,
                 std::int64_t width,
                 std::span<double> partial) {
    const std::int64_t padded_rows = padded(rows_, plan_.kernels->row_unit);
    bool finite = true;
    if (plan_.centred) {
      finite = plan_.kernels->centre(tile, stride_, rows_, width, panel_.data());
    } else {
      plan_.kernels->widen(tile, stride_, rows_, width, panel_.data());
    }
    if (finite) plan_.kernels->gram(panel_.data(), padded_rows, width, partial.data());
    if (finite && (plan_.centred || finite_diagonal(partial, padded_rows))) return;
    require_finite(*plan_.source, tile, stride_, begin, width);
    check(false, "a tile whose means or squares are not finite holds a value that is not finite");
  }

  const PassPlan& plan_;
  std::int64_t rows_;
  std::int64_t stride_;
  Lines<float> tile_;
  Lines<double> panel_;
};

}  // namespace

void require_finite(const SnapshotSource& source,
                    const float* tile,
                    std::int64_t stride,
                    std::int64_t begin,
                    std::int64_t width) {
  for (std::int64_t i = 0; i < source.rows(); ++i) {
    for (std::int64_t c = 0; c < width; ++c) {
      const float value = tile[i * stride + c];
      require(std::isfinite(value),
              "pca::fit",
              "needs finite snapshots, received ",
              value,
              " in row ",
              i,
              " (",
              source.names()[static_cast<std::size_t>(i)],
              "), column ",
              begin + c);
    }
  }
}

layout::ColumnRange own_range(const Ranks& ranks, std::int64_t columns) {
  check(ranks.size >= 1 && 0 <= ranks.rank && ranks.rank < ranks.size, "a rank needs 0 <= r < R");
  const std::int64_t blocks = padded(columns, kDigestColumns) / kDigestColumns;
  // The first blocks % R ranks have one block more than the others.
  const auto start = [&](std::int64_t rank) {
    const std::int64_t block = rank * (blocks / ranks.size) + std::min(rank, blocks % ranks.size);
    return std::min(block * kDigestColumns, columns);
  };
  return {start(ranks.rank), start(ranks.rank + 1)};
}

PassPlan plan_passes(const SnapshotSource& source,
                     const Kernels& kernels,
                     std::int64_t components,
                     std::int64_t threads,
                     std::int64_t tile_bytes,
                     const layout::ColumnRange& own) {
  const std::int64_t n = source.rows();
  std::int64_t write_width = kDigestColumns;
  std::int64_t tile_width = kBlockColumns;
  const auto bytes = [&] { return bytes_per_thread(n, components, tile_width, write_width); };
  while (write_width > kPanelColumns && threads * bytes() > tile_bytes) {
    write_width /= 2;
    tile_width = std::min(tile_width, write_width);
  }
  threads = std::clamp<std::int64_t>(tile_bytes / bytes(), 1, threads);
  return {&source, &kernels, components, threads, tile_width, write_width, own, true, nullptr, 0};
}

PassPlan plan_within(PassPlan plan, const layout::ColumnRange& columns) {
  plan.own.begin = std::max(plan.own.begin, columns.begin);
  plan.own.end = std::max(plan.own.begin, std::min(plan.own.end, columns.end));
  while (plan.write_width > kPanelColumns && plan.write_width / 2 >= plan.own.size()) {
    plan.write_width /= 2;
    plan.tile_width = std::min(plan.tile_width, plan.write_width);
  }
  return plan;
}

std::vector<double> gram_matrix(const PassPlan& plan) {
  if (plan.device) return gram_on_device(plan);
  const std::int64_t rows = padded(plan.source->rows(), plan.kernels->row_unit);
  return ordered_sum(
      plan.blocks(kBlockColumns), plan.threads, static_cast<std::size_t>(rows * rows), [&plan] {
        return BlockWork(GramWork(plan));
      });
}

}  // namespace dimred::pca
