#pragma once

#include <torch/types.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

// Columns that the ranks of a group send one another directly, all at once.
namespace dimred::distributed {

/// Some of a backend's ranks, in an order that all of them know.
struct Peers {
  const c10::intrusive_ptr<c10d::Backend>& backend;
  std::vector<int> ranks;
  std::size_t own = 0;  // this rank's place among them
};

/// Contiguous tensors by a peer's place. For each pair of peers the sizes of both sides agree;
/// empty tensors are sent by neither.
using PiecesOf = std::function<std::vector<torch::Tensor>(std::size_t)>;

/// The sums over the peers, in their order, of the pieces that each has for this rank. Sends each
/// peer's pieces to it. A peer alone: its own pieces themselves.
std::vector<torch::Tensor> reduce_among(const Peers& peers, const PiecesOf& pieces_for);

/// Sends `own` to every peer, and receives those of each into its pieces.
void gather_among(const Peers& peers,
                  const std::vector<torch::Tensor>& own,
                  const PiecesOf& pieces_of);

}  // namespace dimred::distributed
