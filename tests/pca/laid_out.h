#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"
#include "tests/pca/matrices.h"

// Tools that the tests of kinds and blocks share: snapshots that know their layers and epochs.
namespace dimred::pca::testing {

layout::Layout layout_of(const std::vector<std::pair<std::string, std::int64_t>>& layers);

/// Rows in memory with a layout, and epochs where given.
class LaidOutSource final : public SnapshotSource {
 public:
  LaidOutSource(Matrix rows, const layout::Layout& layout, std::vector<std::int64_t> epochs = {})
      : SnapshotSource(info_of(rows, layout, std::move(epochs))), rows_(std::move(rows)) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    const auto part = to_float(rows_.row(row).segment(begin, std::ssize(out)));
    std::ranges::copy(part, out.begin());
  }

 private:
  static SourceInfo info_of(const Matrix& rows,
                            const layout::Layout& layout,
                            std::vector<std::int64_t> epochs) {
    SourceInfo info{.rows = rows.rows(),
                    .columns = rows.cols(),
                    .layout_hash = layout.hash,
                    .layout_json = layout::to_json(layout),
                    .epochs = std::move(epochs)};
    for (std::int64_t i = 0; i < info.rows; ++i) info.names.push_back("row " + std::to_string(i));
    return info;
  }
  Matrix rows_;
};

/// Six layers of 45,010 columns in all: a border in the first and in a later digest block of 16384,
/// one that two digest blocks share, a layer of one column, one that never moves, and one of fewer
/// columns than components.
layout::Layout six_layers();

inline constexpr std::int64_t layer_columns = 45010;

/// n snapshots of six_layers() with a mean and a spectrum that falls.
Matrix layered_snapshots(std::int64_t n, unsigned seed);

/// Columns of each layer.
std::vector<layout::ColumnRange> ranges_of(const layout::Layout& layout);

Matrix columns_of(const Matrix& matrix, const layout::ColumnRange& range);

FitOptions kind_options(Kind kind, std::int64_t components, Blocks blocks = Blocks::whole);

}  // namespace dimred::pca::testing
