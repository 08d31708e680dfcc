#pragma once

#include <cstdint>
#include <vector>

#include "layout/shard.h"
#include "pca/components.h"

namespace dimred::pca {

/// Permutes the columns of P within each of `layers` (sorted, covering all columns), all rows
/// alike: column i of layer l becomes its column permuted(i, size, seed, shuffle, l). Row by row:
/// each rank reads the layers that its own columns lie in, waits for the others, writes its own
/// columns. Memory: 8 bytes for each own column, 4 for each of the largest layer.
void shuffle_columns(const Pass& pass,
                     const std::vector<layout::ColumnRange>& layers,
                     std::uint64_t seed,
                     const MatrixTarget& matrix,
                     Communicator& communicator);

}  // namespace dimred::pca
