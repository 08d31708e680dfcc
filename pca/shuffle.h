#pragma once

#include "pca/block_fit.h"

namespace dimred::pca {

/// Permutes the columns of P within each of the layers (sorted, covering all columns), all rows
/// alike: column i of layer l becomes its column permuted(i, size, seed, shuffle, l). Row by row:
/// each rank reads the layers that its own columns lie in, waits for the others, writes its own
/// columns. Memory: 8 bytes for each own column, 4 for each of the largest layer.
void shuffle_columns(const Fit& fit);

}  // namespace dimred::pca
