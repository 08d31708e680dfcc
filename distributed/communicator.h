#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "layout/shard.h"

namespace dimred::distributed {

/// What every reduction point of the trainers calls. With one rank each call is a true no-op: no
/// copy, no allocation. Vectors of M columns are in memory order; `shards` lists every rank's
/// share.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sum over ranks, in place; small host values (loss sums, counts, g_k, flags).
  virtual void all_reduce(std::span<double> values) = 0;
  /// Sum over ranks of a full vector [memory_size], in place.
  virtual void all_reduce(torch::Tensor& values) = 0;
  /// Sum over ranks; returns this rank's columns [own]. May return (a view of) `full` itself.
  virtual torch::Tensor reduce_scatter(const torch::Tensor& full,
                                       const std::vector<layout::Shard>& shards) = 0;
  /// Every rank's columns [memory_size] from own [own]. May return `own` itself.
  virtual torch::Tensor all_gather(const torch::Tensor& own,
                                   const std::vector<layout::Shard>& shards) = 0;
  virtual void broadcast(torch::Tensor& values, int root) = 0;
  virtual void barrier() = 0;

  /// Bytes this rank has sent since the start.
  std::int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  std::int64_t bytes_sent_ = 0;
};

/// Finds rank and size in the environment of torchrun, srun or mpirun; alone it is rank 0 of 1.
/// Throws std::invalid_argument for more than one rank: this version runs one.
std::unique_ptr<Communicator> connect();

/// True if any rank's flag is set.
bool any_rank(Communicator& communicator, bool flag);

}  // namespace dimred::distributed
