#include "pca/pass.h"

#include "support/errors.h"

namespace dimred::pca {
namespace {

std::int64_t bytes_per_thread(const SnapshotSource& rows,
                              std::int64_t k,
                              std::int64_t tile_width,
                              std::int64_t write_width) {
  const auto n = rows.rows();
  const auto tile = n * (tile_width + kColumnSlack);
  const auto result = padded(k, kComponentUnit) * (write_width + kColumnSlack);
  const auto doubles = std::max(n, k) * kPanelStride + n * kColumnSlack;
  return (rows.info().float64 ? 8 : 4) * tile + 4 * result + 8 * doubles;
}

}  // namespace

layout::ColumnRange own_range(int rank, int ranks, std::int64_t columns) {
  check(0 <= rank && rank < ranks, "a rank needs 0 <= r < R");
  const auto blocks = ceiling(columns, kDigestColumns);
  // The first blocks % R ranks have one block more than the others.
  const auto start = [&](std::int64_t r) {
    const auto block = r * (blocks / ranks) + std::min(r, blocks % ranks);
    return std::min(block * kDigestColumns, columns);
  };
  return {start(rank), start(rank + 1)};
}

Pass pass_over(const SnapshotSource& rows,
               const Kernels& kernels,
               std::int64_t components,
               std::int64_t threads,
               std::int64_t tile_bytes,
               const layout::ColumnRange& own) {
  std::int64_t write_width = kDigestColumns;
  std::int64_t tile_width = kBlockColumns;
  const auto bytes = [&] { return bytes_per_thread(rows, components, tile_width, write_width); };
  while (write_width > kPanelColumns && threads * bytes() > tile_bytes) {
    write_width /= 2;
    tile_width = std::min(tile_width, write_width);
  }
  threads = std::clamp<std::int64_t>(tile_bytes / bytes(), 1, threads);
  return {&rows, &kernels, components, threads, tile_width, write_width, own};
}

Pass within(Pass pass, const layout::ColumnRange& columns) {
  pass.own.begin = std::max(pass.own.begin, columns.begin);
  pass.own.end = std::max(pass.own.begin, std::min(pass.own.end, columns.end));
  while (pass.write_width > kPanelColumns && pass.write_width / 2 >= pass.own.size()) {
    pass.write_width /= 2;
    pass.tile_width = std::min(pass.tile_width, pass.write_width);
  }
  return pass;
}

}  // namespace dimred::pca
