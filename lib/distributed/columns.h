#pragma once

#include <torch/types.h>

#include <vector>

#include "distributed/communicator.h"
#include "layout/shard.h"

namespace dimred::distributed {

/// How vectors of a layout are shared out. The replicated columns, which every rank has alike, are
/// cut into a share a rank; the sharded ones are this rank's alone, and no rank ever sees
/// another's. "Own columns" are this rank's share with its sharded columns behind it.
struct Columns {
  std::vector<layout::Shard> shares;  // of the replicated columns, every rank's
  layout::ColumnRange sharded;        // memory columns; empty where nothing is sharded
  layout::Shard own;
};

Columns columns_of(const layout::Layout& layout, const TensorCommunicator& communicator);

/// Own columns [own] of a vector [memory_size]; a view where they lie together.
torch::Tensor own_columns(const torch::Tensor& full, const Columns& columns);

/// Sum over ranks of the replicated columns and the sharded ones as they are; returns own columns.
/// Costs and aliases as TensorCommunicator::reduce_scatter.
torch::Tensor reduce_scatter(TensorCommunicator& communicator,
                             const torch::Tensor& full,
                             const Columns& columns);

/// A vector [memory_size] from every rank's own columns. Costs and aliases as
/// TensorCommunicator::all_gather.
torch::Tensor all_gather(TensorCommunicator& communicator,
                         const torch::Tensor& own,
                         const Columns& columns);

}  // namespace dimred::distributed
