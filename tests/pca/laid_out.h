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
  LaidOutSource(Matrix rows, layout::Layout layout, std::vector<std::int64_t> epochs = {})
      : rows_(std::move(rows)), layout_(std::move(layout)), epochs_(std::move(epochs)) {}
  std::int64_t rows() const override { return rows_.rows(); }
  std::int64_t columns() const override { return rows_.cols(); }
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    const auto part = to_float(rows_.row(row).segment(begin, std::ssize(out)));
    std::ranges::copy(part, out.begin());
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < rows(); ++i) names.push_back("row " + std::to_string(i));
    return names;
  }
  std::string layout_hash() const override { return layout_.hash; }
  std::string layout_json() const override { return layout::to_json(layout_); }
  std::vector<std::int64_t> epochs() const override { return epochs_; }

 private:
  Matrix rows_;
  layout::Layout layout_;
  std::vector<std::int64_t> epochs_;
};

/// Six layers of 45,010 columns in all: a border in the first and in a later digest block of 16384,
/// one that two digest blocks share, a layer of one column, one that never moves, and one of fewer
/// columns than components.
layout::Layout six_layers();

inline constexpr std::int64_t kLayerColumns = 45010;

/// n snapshots of six_layers() with a mean and a spectrum that falls.
Matrix layered_snapshots(std::int64_t n, unsigned seed);

/// Columns of each layer.
std::vector<layout::ColumnRange> ranges_of(const layout::Layout& layout);

Matrix columns_of(const Matrix& matrix, const layout::ColumnRange& range);

FitOptions kind_options(Kind kind, std::int64_t components, Blocks blocks = Blocks::whole);

}  // namespace dimred::pca::testing
