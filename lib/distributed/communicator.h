#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "layout/shard.h"
#include "support/communicator.h"

namespace dimred::distributed {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast, barrier };
constexpr std::size_t collective_count = 5;
const char* name(Collective collective);

/// The cost of one kind of collective for this rank so far.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_between_nodes = 0;  // of these, by reduce_scatter and all_gather
  double seconds = 0;  // from start to end, also where other work went on meanwhile
};

/// A collective that another rank, or the network, has let down; names rank and collective.
class CollectiveFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A sum over ranks under way.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;  // until it is done; throws CollectiveFailed
};

/// The collectives of tensors, which the trainers call at every reduction point beside those of the
/// host. With one rank each call is a
/// true no-op: no copy, no allocation. Vectors of M columns are in memory order; `shards` lists
/// every rank's share. Collectives are called by one thread of each rank, in the same order
/// everywhere; every rank gets the same bits. All throw CollectiveFailed.
class TensorCommunicator : public Communicator {
 public:
  /// Sum over ranks of a contiguous vector, in place.
  void all_reduce(torch::Tensor& values) { start_all_reduce(values)->wait(); }
  /// Sums in the background: `values` must be left alone until wait() returns.
  virtual std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) = 0;
  /// Largest of the ranks' values at each place, in place.
  virtual void all_reduce_maximum(torch::Tensor& values) = 0;
  /// Sum over ranks, added in rank order, of several nodes first within each and then in the nodes'
  /// order; returns this rank's columns [own]. May return (a view of) `full` itself. Sends
  /// full - own; between nodes each column once a node.
  virtual torch::Tensor reduce_scatter(const torch::Tensor& full,
                                       const std::vector<layout::Shard>& shards) = 0;
  /// Every rank's columns [memory_size] from own [own]. May return `own` itself. Sends own x,
  /// where shares are equal; between nodes each column once a node.
  virtual torch::Tensor all_gather(const torch::Tensor& own,
                                   const std::vector<layout::Shard>& shards) = 0;
  virtual void broadcast(torch::Tensor& values, int root) = 0;
  virtual void barrier() = 0;

  const Traffic& traffic(Collective collective) const {
    return traffic_[static_cast<std::size_t>(collective)];
  }
  /// Bytes this rank has sent since the start.
  std::int64_t bytes_sent() const;

 protected:
  Traffic& traffic(Collective collective) { return traffic_[static_cast<std::size_t>(collective)]; }

 private:
  std::array<Traffic, collective_count> traffic_{};
};

/// Rank 0 of 1.
std::unique_ptr<TensorCommunicator> single_rank();

}  // namespace dimred::distributed
