#include "optimizers/segments.h"

#include <algorithm>

namespace dimred::optimizers {
namespace {

/// Padding between segments joins the segment before it; its weights and gradients are zero.
Segment segment_of(const layout::Layout& layout, std::size_t i) {
  const auto& entry = layout.entries[i];
  return {.columns = {entry.memory_offset, layout.memory_end(i)},
          .decay = entry.decay,
          .rows = entry.shape.size() >= 2 ? entry.shape.front() : 1,
          .size = entry.size,
          .sharded = entry.placement == layout::Placement::sharded};
}

}  // namespace

std::vector<Segment> segments_of(const layout::Layout& layout) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) segments.push_back(segment_of(layout, i));
  return segments;
}

std::vector<Segment> segments_of(const layout::Layout& layout, const layout::Shard& shard) {
  std::vector<Segment> segments;
  std::int64_t before = 0;  // columns of the shard's ranges so far
  for (const auto& range : shard.memory) {
    for (const auto& whole : segments_of(layout)) {
      const auto begin = std::max(range.begin, whole.columns.begin);
      const auto end = std::min(range.end, whole.columns.end);
      if (begin >= end) continue;
      const bool all = begin == whole.columns.begin && end == whole.columns.end;
      const auto filled = std::min(end, whole.columns.begin + whole.size) - begin;
      segments.push_back({.columns = {before + begin - range.begin, before + end - range.begin},
                          .decay = whole.decay,
                          .rows = all ? whole.rows : 1,
                          .size = std::max<std::int64_t>(0, filled),
                          .sharded = whole.sharded});
    }
    before += range.size();
  }
  return segments;
}

std::vector<DecayRange> decay_ranges(const std::vector<Segment>& segments) {
  std::vector<DecayRange> ranges;
  for (const auto& segment : segments) {
    if (!ranges.empty() && ranges.back().decay == segment.decay) {
      ranges.back().columns.end = segment.columns.end;
    } else {
      ranges.push_back({segment.columns, segment.decay});
    }
  }
  return ranges;
}

std::vector<DecayRange> decay_ranges(const layout::Layout& layout) {
  return decay_ranges(segments_of(layout));
}

}  // namespace dimred::optimizers
