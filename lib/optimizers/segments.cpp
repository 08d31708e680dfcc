#include "optimizers/segments.h"

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
