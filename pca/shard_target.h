#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"

namespace dimred::pca {

/// `network` with the offsets in files that its parameters have in `file`, another order of the
/// same (name, shape) set, whose names may all have one prefix more; nullopt when the sets differ.
std::optional<layout::Layout> at_file_offsets(const layout::Layout& network,
                                              const layout::Layout& file);

/// Source (file columns) and destination (columns of a shard-local vector in memory order) of a
/// shard's elements.
class ShardTarget {
 public:
  ShardTarget(const layout::Layout& layout, const layout::Shard& shard);

  std::int64_t columns() const { return columns_; }

  /// File column ranges that the shard needs, sorted, not overlapping.
  const std::vector<layout::ColumnRange>& needed() const { return needed_; }

  /// Puts the file columns [begin, begin + values.size()) that the shard needs at their places in
  /// `memory` [columns()].
  void scatter(std::int64_t begin, std::span<const float> values, std::span<float> memory) const;
  /// Rounded to bfloat16, to nearest, ties to even.
  void scatter(std::int64_t begin,
               std::span<const float> values,
               std::span<std::uint16_t> memory) const;

 private:
  struct Part {
    layout::ColumnRange file;
    std::int64_t target = 0;  // shard-local column of the part's first element
    std::int64_t channels =
        1;  // channels_last [O, channels, H, W]: file (o, c, p) goes to (o, p, c)
    std::int64_t pixels = 1;
  };

  template <class Value>
  void scatter_as(std::int64_t begin, std::span<const float> values, std::span<Value> memory) const;

  std::vector<Part> parts_;  // by file.begin
  std::vector<layout::ColumnRange> needed_;
  std::int64_t columns_ = 0;
};

}  // namespace dimred::pca
