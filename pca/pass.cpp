#include "pca/pass.h"

#include <cmath>

#include "support/errors.h"

namespace dimred::pca {
namespace {

std::int64_t bytes_per_thread(const Pass& pass) {
  const auto n = pass.rows->rows();
  const auto k = pass.components;
  const auto tile = n * (pass.tile_width + column_slack);
  const auto result = padded(k, component_unit) * (pass.write_width + column_slack);
  const auto doubles = std::max(n, k) * panel_stride + n * column_slack;
  return (pass.rows->info().float64 ? 8 : 4) * tile + 4 * result + 8 * doubles;
}

}  // namespace

layout::ColumnRange own_range(int rank, int ranks, std::int64_t columns) {
  check(0 <= rank && rank < ranks, "a rank needs 0 <= r < R");
  const auto blocks = ceiling(columns, columns_per_digest);
  // The first blocks % R ranks have one block more than the others.
  const auto start = [&](std::int64_t r) {
    const auto block = r * (blocks / ranks) + std::min(r, blocks % ranks);
    return std::min(block * columns_per_digest, columns);
  };
  return {start(rank), start(rank + 1)};
}

void fit_tiles(Pass& pass, std::int64_t tile_bytes) {
  pass.write_width = columns_per_digest;
  pass.tile_width = columns_per_block;
  while (pass.write_width > panel_columns && pass.threads * bytes_per_thread(pass) > tile_bytes) {
    pass.write_width /= 2;
    pass.tile_width = std::min(pass.tile_width, pass.write_width);
  }
  pass.threads = std::clamp<std::int64_t>(tile_bytes / bytes_per_thread(pass), 1, pass.threads);
}

std::int64_t bytes_of(const Pass& pass) {
  const auto& info = pass.rows->info();
  return std::llround(info.item_bytes * static_cast<double>(info.rows * pass.own.size()));
}

Pass within(Pass pass, const layout::ColumnRange& columns) {
  pass.own.begin = std::max(pass.own.begin, columns.begin);
  pass.own.end = std::max(pass.own.begin, std::min(pass.own.end, columns.end));
  while (pass.write_width > panel_columns && pass.write_width / 2 >= pass.own.size()) {
    pass.write_width /= 2;
    pass.tile_width = std::min(pass.tile_width, pass.write_width);
  }
  return pass;
}

}  // namespace dimred::pca
