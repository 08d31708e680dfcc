#include "distributed/exchange.h"

namespace dimred::distributed {
namespace {

/// Sends to and receives from every other peer at once, each beginning with its neighbour so that
/// nobody is everybody's first. Pairs of ranks keep the order of what they send.
PendingTransfer start_exchange(const Peers& peers,
                               const PiecesOf& out_for,
                               const PiecesOf& in_from) {
  PendingTransfer transfer;
  const auto size = peers.ranks.size();
  if (size == 1) return transfer;
  const bool coalesce = peers.backend->supportsCoalescing();  // NCCL wants them as one group
  if (coalesce) peers.backend->startCoalescing();
  for (std::size_t distance = 1; distance < size; ++distance) {
    const auto to = (peers.own + distance) % size;
    const auto from = (peers.own + size - distance) % size;
    for (const auto& piece : in_from(from)) {
      std::vector<at::Tensor> in{piece};
      if (piece.numel() > 0)
        transfer.works.push_back(peers.backend->recv(in, peers.ranks[from], /*tag=*/0));
    }
    for (const auto& piece : out_for(to)) {
      std::vector<at::Tensor> out{piece};
      if (piece.numel() > 0)
        transfer.works.push_back(peers.backend->send(out, peers.ranks[to], /*tag=*/0));
    }
  }
  if (coalesce) {
    transfer.works.clear();
    if (auto work = peers.backend->endCoalescing()) transfer.works.push_back(std::move(work));
  }
  return transfer;
}

std::vector<std::int64_t> sizes_of(const std::vector<torch::Tensor>& pieces) {
  std::vector<std::int64_t> sizes;
  for (const auto& piece : pieces) sizes.push_back(piece.numel());
  return sizes;
}

}  // namespace

void PendingTransfer::wait() {
  for (const auto& work : works) work->wait();
}

std::vector<torch::Tensor> PendingSum::wait() {
  transfer.wait();
  if (!received.defined()) return own;
  auto sum = received[0];
  for (std::int64_t other = 1; other < received.size(0); ++other) sum.add_(received[other]);
  // A view would keep all that was received.
  return sum.clone().split_with_sizes(sizes_of(own));
}

PendingSum start_sum(const Peers& peers, const PiecesOf& pieces_for) {
  PendingSum sum{.own = pieces_for(peers.own)};
  if (peers.ranks.size() == 1) return sum;
  const auto sizes = sizes_of(sum.own);
  std::int64_t total = 0;
  for (const auto size : sizes) total += size;
  sum.received = torch::empty({std::ssize(peers.ranks), total}, sum.own.front().options());
  const auto received_from = [&](std::size_t peer) {
    return sum.received[static_cast<std::int64_t>(peer)].split_with_sizes(sizes);
  };
  sum.transfer = start_exchange(peers, pieces_for, received_from);
  const auto places = received_from(peers.own);
  for (std::size_t i = 0; i < places.size(); ++i) places[i].copy_(sum.own[i]);
  return sum;
}

PendingTransfer start_gather(const Peers& peers,
                             const std::vector<torch::Tensor>& own,
                             const PiecesOf& pieces_of) {
  return start_exchange(
      peers, [&](std::size_t /*to*/) { return own; }, pieces_of);
}

}  // namespace dimred::distributed
