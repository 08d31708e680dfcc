#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"

namespace dimred::layout {

/// Columns [begin, end) of the flat vector.
struct ColumnRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ColumnRange&) const = default;
};

/// This rank's elements of a vector of files [M], in order, as few ranges as can be.
std::vector<ColumnRange> own_ranges(const Layout& layout);

/// This rank's elements [file_size] of a vector of files [M]: own_ranges() of it.
std::vector<float> own_part(const Layout& layout, std::vector<float> whole);

/// One rank's share of the columns: memory ranges, sorted. The ranges of replicated columns never
/// overlap between ranks, and together they cover every element.
struct Shard {
  std::vector<ColumnRange> memory;
  std::int64_t memory_columns() const;
};

/// Shards of these numbers of columns, one behind the other.
std::vector<Shard> consecutive(const std::vector<std::int64_t>& sizes);

/// Rank `rank`'s share of `ranks` shares of the replicated columns: balanced to within the largest
/// cut unit (16 elements; in a 4-D segment an output channel, where file and memory ranges
/// coincide), any `ranks` >= 1, also more ranks than units (some then own nothing). Padding belongs
/// to the segment before it. Throws std::invalid_argument unless 0 <= rank < ranks.
Shard shard_of(const Layout& layout, int rank, int ranks);

/// The share with this rank's sharded columns, which are no other rank's, behind it.
Shard with_sharded(const Layout& layout, Shard share);

/// A piece of the flat vector that a shard owns within one entry, in both orders.
struct Piece {
  std::int64_t entry = 0;         // index into layout.entries
  std::int64_t file_begin = 0;    // first element in files, of the whole [M]
  std::int64_t memory_begin = 0;  // first element in memory order
  std::int64_t size = 0;          // elements; for a channels_last entry a whole number of channels
};

/// The shard cut at entry borders, in order; padding left out.
std::vector<Piece> pieces_of(const Layout& layout, const Shard& shard);

}  // namespace dimred::layout
