#include "distributed/exchange.h"

#include <numeric>

namespace dimred::distributed {
namespace {

/// Sends to and receives from every other peer at once, each beginning with its neighbour so that
/// nobody is everybody's first.
void exchange(const Peers& peers, const PiecesOf& out_for, const PiecesOf& in_from) {
  const auto size = peers.ranks.size();
  if (size == 1) return;
  const bool coalesce = peers.backend->supportsCoalescing();  // NCCL wants them as one group
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  if (coalesce) peers.backend->startCoalescing();
  for (std::size_t distance = 1; distance < size; ++distance) {
    const auto to = (peers.own + distance) % size;
    const auto from = (peers.own + size - distance) % size;
    int tag = 0;  // several pieces of one pair must not be taken for one another
    for (const auto& piece : in_from(from)) {
      std::vector<at::Tensor> in{piece};
      if (piece.numel() > 0) works.push_back(peers.backend->recv(in, peers.ranks[from], tag));
      ++tag;
    }
    tag = 0;
    for (const auto& piece : out_for(to)) {
      std::vector<at::Tensor> out{piece};
      if (piece.numel() > 0) works.push_back(peers.backend->send(out, peers.ranks[to], tag));
      ++tag;
    }
  }
  if (coalesce) works = {peers.backend->endCoalescing()};
  for (const auto& work : works) work->wait();
}

}  // namespace

std::vector<torch::Tensor> reduce_among(const Peers& peers, const PiecesOf& pieces_for) {
  const auto own = pieces_for(peers.own);
  if (peers.ranks.size() == 1) return own;
  std::vector<std::int64_t> sizes;
  for (const auto& piece : own) sizes.push_back(piece.numel());
  const auto total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto received = torch::empty({std::ssize(peers.ranks), total}, own.front().options());
  const auto received_from = [&](std::size_t peer) {
    return received[static_cast<std::int64_t>(peer)].split_with_sizes(sizes);
  };
  exchange(peers, pieces_for, received_from);
  for (std::size_t i = 0; i < own.size(); ++i) received_from(peers.own)[i].copy_(own[i]);
  auto sum = received[0];
  for (std::int64_t other = 1; other < received.size(0); ++other) sum.add_(received[other]);
  return sum.clone().split_with_sizes(sizes);  // a view would keep all that was received
}

void gather_among(const Peers& peers,
                  const std::vector<torch::Tensor>& own,
                  const PiecesOf& pieces_of) {
  exchange(peers, [&](std::size_t /*to*/) { return own; }, pieces_of);
}

}  // namespace dimred::distributed
