#include "layout/shard.h"

#include <algorithm>
#include <utility>

#include "support/errors.h"

namespace dimred::layout {
namespace {

/// Elements that stay together: an output channel of a 4-D segment, else 16 (64 bytes).
std::int64_t cut_unit(const Entry& entry) {
  return entry.shape.size() == 4 ? entry.size / entry.shape[0] : 16;
}

/// The last cut at or before `column`; monotone in it, so shares never overlap.
std::int64_t cut_before(const Layout& layout, std::int64_t column) {
  if (column >= layout.replicated_size) return layout.replicated_size;
  const auto after = std::ranges::upper_bound(layout.entries, column, {}, &Entry::memory_offset);
  const auto& entry = *(after - 1);
  if (entry.size == 0) return entry.memory_offset;
  // A column in the padding counts as the last element: padding is never cut off its segment.
  const auto within = std::min(column - entry.memory_offset, entry.size - 1);
  const auto unit = cut_unit(entry);
  return entry.memory_offset + within / unit * unit;
}

std::int64_t boundary(const Layout& layout, int rank, int ranks) {
  // floor(replicated_size rank / ranks) without overflow.
  const auto whole = layout.replicated_size / ranks;
  const auto rest = layout.replicated_size % ranks;
  return cut_before(layout, whole * rank + rest * rank / ranks);
}

}  // namespace

std::int64_t Shard::memory_columns() const {
  std::int64_t columns = 0;
  for (const auto& range : memory) columns += range.size();
  return columns;
}

std::vector<ColumnRange> own_ranges(const Layout& layout) {
  std::vector<ColumnRange> ranges;
  for (const auto& entry : layout.entries) {
    if (!ranges.empty() && ranges.back().end == entry.own_offset) {
      ranges.back().end += entry.size;
    } else {
      ranges.push_back({entry.own_offset, entry.own_offset + entry.size});
    }
  }
  return ranges;
}

std::vector<float> own_part(const Layout& layout, std::vector<float> whole) {
  require(std::cmp_equal(whole.size(), layout.global_size),
          "[layout] needs {} weights, received {}",
          layout.global_size,
          whole.size());
  if (layout.file_size == layout.global_size) return whole;
  std::vector<float> own;
  own.reserve(layout.file_size);
  for (const auto& [begin, end] : own_ranges(layout))
    own.insert(own.end(), whole.begin() + begin, whole.begin() + end);
  return own;
}

std::vector<Shard> consecutive(const std::vector<std::int64_t>& sizes) {
  std::vector<Shard> shards(sizes.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
    if (sizes[i] > 0) shards[i].memory.push_back({begin, begin + sizes[i]});
  return shards;
}

Shard shard_of(const Layout& layout, int rank, int ranks) {
  require(ranks >= 1 && rank >= 0 && rank < ranks,
          "[layout] needs 0 <= rank < ranks, received rank = {}, ranks = {}",
          rank,
          ranks);
  const ColumnRange range{boundary(layout, rank, ranks), boundary(layout, rank + 1, ranks)};
  if (range.size() == 0) return {};
  return {{range}};
}

Shard with_sharded(const Layout& layout, Shard share) {
  if (layout.memory_size > layout.replicated_size)
    share.memory.push_back({layout.replicated_size, layout.memory_size});
  return share;
}

std::vector<Piece> pieces_of(const Layout& layout, const Shard& shard) {
  std::vector<Piece> pieces;
  for (const auto& range : shard.memory) {
    for (std::size_t i = 0; i < layout.entries.size(); ++i) {
      const auto& entry = layout.entries[i];
      const auto begin = std::max<std::int64_t>(range.begin - entry.memory_offset, 0);
      const auto end = std::min(range.end - entry.memory_offset, entry.size);
      if (begin >= end) continue;
      const auto unit = entry.memory_format == MemoryFormat::channels_last ? cut_unit(entry) : 1;
      require(begin % unit == 0 && end % unit == 0,
              "[layout] the shard of '{}' needs to begin and end at multiples of {} elements, "
              "received [{}, {})",
              entry.name,
              unit,
              begin,
              end);
      pieces.push_back(
          {std::int64_t(i), entry.own_offset + begin, entry.memory_offset + begin, end - begin});
    }
  }
  return pieces;
}

}  // namespace dimred::layout
