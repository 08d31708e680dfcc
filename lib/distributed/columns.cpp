#include "distributed/columns.h"

namespace dimred::distributed {

Columns columns_of(const layout::Layout& layout, const TensorCommunicator& communicator) {
  Columns columns{.sharded = {layout.replicated_size, layout.memory_size}};
  for (int rank = 0; rank < communicator.size(); ++rank)
    columns.shares.push_back(layout::shard_of(layout, rank, communicator.size()));
  columns.own = layout::with_sharded(layout, columns.shares[communicator.rank()]);
  return columns;
}

torch::Tensor own_columns(const torch::Tensor& full, const Columns& columns) {
  std::vector<torch::Tensor> parts;
  for (const auto& range : columns.own.memory)
    parts.push_back(full.narrow(0, range.begin, range.size()));
  if (parts.empty()) return full.narrow(0, 0, 0);
  return parts.size() == 1 ? parts.front() : torch::cat(parts);
}

torch::Tensor reduce_scatter(TensorCommunicator& communicator,
                             const torch::Tensor& full,
                             const Columns& columns) {
  const auto& [begin, end] = columns.sharded;
  if (begin == end) return communicator.reduce_scatter(full, columns.shares);
  const auto share = communicator.reduce_scatter(full.narrow(0, 0, begin), columns.shares);
  return torch::cat({share, full.narrow(0, begin, end - begin)});
}

torch::Tensor all_gather(TensorCommunicator& communicator,
                         const torch::Tensor& own,
                         const Columns& columns) {
  const auto sharded = columns.sharded.size();
  if (sharded == 0) return communicator.all_gather(own, columns.shares);
  const auto share = own.numel() - sharded;
  const auto replicated =
      communicator.all_gather(own.narrow(0, 0, share).contiguous(), columns.shares);
  return torch::cat({replicated, own.narrow(0, share, sharded)});
}

}  // namespace dimred::distributed
