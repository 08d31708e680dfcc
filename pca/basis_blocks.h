#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"
#include "pca/basis.h"

namespace dimred::pca {

struct OwnBlocks {
  std::int64_t count = 1;          // over all ranks
  std::vector<BasisBlock> ranges;  // of the shard
};

/// The blocks of a shard's columns, from those of the file (sorted, of all columns; empty: one of
/// all), where `layout` has each parameter at its place in the file. Padding belongs to the
/// parameter before it. Throws std::runtime_error when a block cuts a parameter.
OwnBlocks blocks_of(const layout::Layout& layout,
                    const layout::Shard& shard,
                    const std::vector<layout::ColumnRange>& file_blocks);

}  // namespace dimred::pca
