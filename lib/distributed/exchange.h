#pragma once

#include <torch/types.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

// Columns that the ranks of a group send one another directly, all at once.
namespace dimred::distributed {

/// Some of a backend's ranks, in an order that all of them know.
struct Peers {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<int> ranks;
  std::size_t own = 0;  // this rank's place among them
};

/// Contiguous tensors by a peer's place. For each pair of peers the sizes of both sides agree;
/// empty tensors are sent by neither.
using PiecesOf = std::function<std::vector<torch::Tensor>(std::size_t)>;

/// Sends and receipts under way, begun in the same order by all peers.
struct PendingTransfer {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  void wait();  // throws what the backend throws
};

/// A sum under way.
struct PendingSum {
  PendingTransfer transfer;
  std::vector<torch::Tensor> own;
  torch::Tensor received;  // [peers x own columns]; undefined of a peer alone
  /// The sums of the pieces, added in the peers' order; of a peer alone its pieces themselves.
  std::vector<torch::Tensor> wait();
};

/// The sums over the peers of the pieces that each has for this rank. Sends each peer's pieces to
/// it.
PendingSum start_sum(const Peers& peers, const PiecesOf& pieces_for);

/// Sends `own` to every peer, and receives those of each into its pieces.
PendingTransfer start_gather(const Peers& peers,
                             const std::vector<torch::Tensor>& own,
                             const PiecesOf& pieces_of);

}  // namespace dimred::distributed
