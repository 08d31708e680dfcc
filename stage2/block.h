#pragma once

#include <torch/types.h>

#include "layout/shard.h"

namespace dimred::stage2 {

/// Rows that act on a range of columns only: P is zero outside. One block over all columns is the
/// plain case; a block per layer makes P block-diagonal, with components of its own for each layer.
struct Block {
  layout::ColumnRange columns;  // of this rank's own columns
  torch::Tensor basis;          // [k x columns], contiguous, float32 or bfloat16
};

}  // namespace dimred::stage2
