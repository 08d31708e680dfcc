#include "pca/basis_blocks.h"

#include <algorithm>
#include <map>

#include "support/errors.h"

namespace dimred::pca {
namespace {

/// Blocks of all memory columns, by begin, neighbours of one block as one range.
OwnBlocks memory_blocks(const layout::Layout& layout,
                        const std::vector<layout::ColumnRange>& file_blocks) {
  if (file_blocks.size() < 2) return {1, {{0, 0, layout.memory_size}}};
  OwnBlocks blocks;
  std::map<std::int64_t, std::int64_t> indices;  // of file blocks, in the order met
  for (const layout::Entry& entry : layout.entries) {
    if (entry.global_size == 0) continue;
    const auto after =
        std::ranges::upper_bound(file_blocks, entry.global_offset, {}, &layout::ColumnRange::begin);
    require_environment(
        after != file_blocks.begin() && entry.global_offset + entry.global_size <= (after - 1)->end,
        "[pca::load_basis] needs blocks of whole parameters, one of the sidecar's cuts {}",
        entry.name);
    const std::int64_t index =
        indices.emplace(after - file_blocks.begin(), std::ssize(indices)).first->second;
    if (!blocks.ranges.empty()) blocks.ranges.back().end = entry.memory_offset;
    if (!blocks.ranges.empty() && blocks.ranges.back().index == index) continue;
    blocks.ranges.push_back({index, entry.memory_offset, layout.memory_size});
  }
  blocks.ranges.back().end = layout.memory_size;
  blocks.count = std::ssize(indices);
  return blocks;
}

}  // namespace

OwnBlocks blocks_of(const layout::Layout& layout,
                    const layout::Shard& shard,
                    const std::vector<layout::ColumnRange>& file_blocks) {
  const OwnBlocks all = memory_blocks(layout, file_blocks);
  OwnBlocks own{all.count, {}};
  std::int64_t start = 0;  // of the memory range within the shard
  for (const layout::ColumnRange& range : shard.memory) {
    for (const BasisBlock& block : all.ranges) {
      const std::int64_t begin = std::max(block.begin, range.begin);
      const std::int64_t end = std::min(block.end, range.end);
      if (begin >= end) continue;
      const BasisBlock part{block.index, start + begin - range.begin, start + end - range.begin};
      const bool goes_on = !own.ranges.empty() && own.ranges.back().index == part.index;
      goes_on ? void(own.ranges.back().end = part.end) : own.ranges.push_back(part);
    }
    start += range.size();
  }
  return own;
}

}  // namespace dimred::pca
