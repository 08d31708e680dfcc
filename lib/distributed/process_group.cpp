#include "distributed/process_group.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "distributed/exchange.h"
#include "distributed/volume.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "support/text.h"

namespace dimred::distributed {
namespace {

/// One of equal parts of every share.
struct SharePart {
  std::int64_t index = 0, count = 1;
};

/// By one call of a collective.
struct Sent {
  std::int64_t bytes = 0;
  std::int64_t between_nodes = 0;
};

/// The rank's single range of columns; shares of more ranges are not made today.
layout::ColumnRange range_of(const layout::Shard& shard) {
  check(shard.memory.size() <= 1, "a shard of several ranges");
  return shard.memory.empty() ? layout::ColumnRange{} : shard.memory.front();
}

torch::Tensor columns(const torch::Tensor& full, const layout::ColumnRange& range) {
  return full.narrow(0, range.begin, range.size());
}

class ProcessGroup final : public TensorCommunicator {
 public:
  ProcessGroup(Backends backends, int rank, int size, int node_size)
      : backends_(std::move(backends)),
        rank_(rank),
        size_(size),
        node_size_(node_size),
        place_(rank % node_size) {
    check(size % node_size == 0, "ranks that are no whole nodes");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void sum(std::span<double> values) override {
    if (values.empty()) return;
    auto tensor = torch::from_blob(values.data(), {std::ssize(values)}, torch::kFloat64);
    start_all_reduce(tensor)->wait();
  }

  std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override;

  void all_reduce_maximum(torch::Tensor& values) override {
    auto there = staged(values);
    const auto sent = volume::all_reduce_bytes(bytes(there), size_);
    counted(Collective::all_reduce, {sent}, [&] {
      std::vector<at::Tensor> list{there};
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::MAX;
      backend_of(there)->allreduce(list, options)->wait();
    });
    if (!there.is_same(values)) values.copy_(there);
  }

  /// Within the node, each rank adds the columns of ranks with its place on their nodes; then these
  /// exchange what their nodes have summed, part by part, while the next parts come in. On one node
  /// the columns go straight to their owners.
  torch::Tensor reduce_scatter(const torch::Tensor& full,
                               const std::vector<layout::Shard>& shards) override {
    const auto there = staged(full);
    const auto own = bytes(columns(there, range_of(shards[rank_])));
    const auto at_place = bytes(pieces(there, shards, place_, {}));
    const auto& backend = backend_of(there);
    std::vector<torch::Tensor> sums;
    counted(Collective::reduce_scatter,
            {volume::reduce_scatter_bytes(bytes(there), own), at_place - own},
            [&] {
              std::vector<PendingSum> within, between;
              for (const auto& part : parts_of(there))
                within.push_back(start_sum(node(backend), [&](std::size_t place) {
                  return pieces(there, shards, static_cast<int>(place), part);
                }));
              for (auto& sum : within) {
                const auto of_node = sum.wait();
                between.push_back(start_sum(across_nodes(backend), [&](std::size_t node) {
                  return std::vector{of_node[node]};
                }));
              }
              for (auto& sum : between) sums.push_back(sum.wait().front());
            });
    return (sums.size() == 1 ? sums.front() : torch::cat(sums)).to(full.device());
  }

  torch::Tensor all_gather(const torch::Tensor& own,
                           const std::vector<layout::Shard>& shards) override {
    auto there = staged(own);
    std::int64_t size = 0;
    for (const auto& shard : shards) size = std::max(size, range_of(shard).end);
    auto full = torch::empty({size}, there.options());
    columns(full, range_of(shards[rank_])).copy_(there);
    const auto between = volume::all_gather_bytes(bytes(there), nodes());
    const auto within =
        volume::all_gather_bytes(bytes(pieces(full, shards, place_, {})), node_size_);
    const auto& backend = backend_of(there);
    counted(Collective::all_gather, {between + within, between}, [&] {
      std::vector<PendingTransfer> to_nodes, to_ranks;
      const auto parts = parts_of(full);
      for (const auto& part : parts) {
        const auto at_place = pieces(full, shards, place_, part);
        to_nodes.push_back(start_gather(
            across_nodes(backend), {at_place[rank_ / node_size_]}, [&](std::size_t node) {
              return std::vector{at_place[node]};
            }));
      }
      for (std::size_t i = 0; i < parts.size(); ++i) {
        to_nodes[i].wait();
        to_ranks.push_back(start_gather(
            node(backend), pieces(full, shards, place_, parts[i]), [&](std::size_t place) {
              return pieces(full, shards, static_cast<int>(place), parts[i]);
            }));
      }
      for (auto& transfer : to_ranks) transfer.wait();
    });
    return full.to(own.device());
  }

  void broadcast(torch::Tensor& values, int root) override {
    auto there = staged(values);
    const int distance = (rank_ - root + size_) % size_;
    counted(
        Collective::broadcast, {bytes(there) * volume::broadcast_children(distance, size_)}, [&] {
          std::vector<at::Tensor> list{there};
          c10d::BroadcastOptions options;
          options.rootRank = root;
          backend_of(there)->broadcast(list, options)->wait();
        });
    if (!there.is_same(values)) values.copy_(there);
  }

  std::vector<std::string> gather(const std::string& text) override;

  void barrier() override {
    counted(Collective::barrier, {}, [&] { backends_.host->barrier()->wait(); });
  }

  /// Runs one collective: its seconds and bytes are counted, its failure is named.
  void counted(Collective kind, const Sent& sent, const std::function<void()>& collective) {
    auto& count = traffic(kind);
    const ScopedSeconds running(count.seconds);
    ++count.calls;
    count.bytes_sent += sent.bytes;
    count.bytes_between_nodes += sent.between_nodes;
    named(kind, collective);
  }

  void named(Collective kind, const std::function<void()>& collective) const {
    try {
      collective();
    } catch (const std::exception& error) {
      throw CollectiveFailed(formatted("[distributed] {} failed on rank {} of {}: {}",
                                       name(kind),
                                       rank_,
                                       size_,
                                       error_line(error.what())));
    }
  }

 private:
  const c10::intrusive_ptr<c10d::Backend>& backend_of(const torch::Tensor& values) const {
    return values.is_cuda() ? backends_.device : backends_.host;
  }

  /// `values` where a backend can take it.
  torch::Tensor staged(const torch::Tensor& values) const {
    return values.is_cuda() && !backends_.device ? values.cpu() : values.contiguous();
  }

  static std::int64_t bytes(const torch::Tensor& values) { return values.nbytes(); }

  static std::int64_t bytes(const std::vector<torch::Tensor>& values) {
    std::int64_t sum = 0;
    for (const auto& one : values) sum += bytes(one);
    return sum;
  }

  int nodes() const { return size_ / node_size_; }

  /// The ranks of this rank's node.
  Peers node(const c10::intrusive_ptr<c10d::Backend>& backend) const {
    Peers peers{.backend = backend, .own = static_cast<std::size_t>(place_)};
    for (int place = 0; place < node_size_; ++place) peers.ranks.push_back(rank_ - place_ + place);
    return peers;
  }

  /// One rank of each node, that which has this rank's place.
  Peers across_nodes(const c10::intrusive_ptr<c10d::Backend>& backend) const {
    Peers peers{.backend = backend, .own = static_cast<std::size_t>(rank_ / node_size_)};
    for (int rank = place_; rank < size_; rank += node_size_) peers.ranks.push_back(rank);
    return peers;
  }

  /// Parts in which the shares of a vector travel: within nodes and between them at the same time,
  /// over Gloo. NCCL takes one group of messages after another, so that parts would gain nothing.
  std::vector<SharePart> parts_of(const torch::Tensor& full) const {
    constexpr std::int64_t least = 1 << 20, most = 8;  // bytes of a share's part; parts
    if (nodes() == 1 || node_size_ == 1 || full.is_cuda()) return {{}};
    const auto count = std::clamp<std::int64_t>(bytes(full) / size_ / least, 1, most);
    std::vector<SharePart> parts;
    for (std::int64_t i = 0; i < count; ++i) parts.push_back({i, count});
    return parts;
  }

  /// This part of the columns of `full` of the ranks that have this place on their nodes, in the
  /// nodes' order.
  std::vector<torch::Tensor> pieces(const torch::Tensor& full,
                                    const std::vector<layout::Shard>& shards,
                                    int place,
                                    const SharePart& part) const {
    std::vector<torch::Tensor> result;
    for (int rank = place; rank < size_; rank += node_size_) {
      const auto range = range_of(shards[rank]);
      result.push_back(columns(full,
                               {range.begin + range.size() * part.index / part.count,
                                range.begin + range.size() * (part.index + 1) / part.count}));
    }
    return result;
  }

  Backends backends_;
  int rank_, size_;
  int node_size_;  // ranks of each node
  int place_;      // of this rank on its node
};

class PendingReduction final : public Pending {
 public:
  PendingReduction(ProcessGroup& group,
                   c10::intrusive_ptr<c10d::Work> work,
                   double& seconds,
                   std::function<void()> finish)
      : group_(group), work_(std::move(work)), seconds_(seconds), finish_(std::move(finish)) {}

  void wait() override {
    group_.named(Collective::all_reduce, [this] { work_->wait(); });
    seconds_ += clock_.seconds();
    finish_();
  }

 private:
  ProcessGroup& group_;
  c10::intrusive_ptr<c10d::Work> work_;
  double& seconds_;
  std::function<void()> finish_;
  Stopwatch clock_;
};

std::unique_ptr<Pending> ProcessGroup::start_all_reduce(torch::Tensor values) {
  auto there = staged(values);
  auto& count = traffic(Collective::all_reduce);
  ++count.calls;
  count.bytes_sent += volume::all_reduce_bytes(bytes(there), size_);
  c10::intrusive_ptr<c10d::Work> work;
  named(Collective::all_reduce, [&] {
    std::vector<at::Tensor> list{there};
    work = backend_of(there)->allreduce(list);
  });
  return std::make_unique<PendingReduction>(
      *this, std::move(work), count.seconds, [values, there]() mutable {
        if (!there.is_same(values)) values.copy_(there);
      });
}

std::vector<std::string> ProcessGroup::gather(const std::string& text) {
  std::vector<double> lengths(size_);
  lengths[rank_] = text.size();
  sum(lengths);
  const auto shards = layout::consecutive({lengths.begin(), lengths.end()});

  auto own = torch::empty({std::ssize(text)}, torch::kUInt8);
  std::ranges::copy(text, own.data_ptr<std::uint8_t>());
  const auto all = all_gather(own, shards);
  std::vector<std::string> texts;
  for (const auto& shard : shards) {
    const auto range = range_of(shard);
    const auto* bytes = all.data_ptr<std::uint8_t>();
    texts.emplace_back(bytes + range.begin, bytes + range.end);
  }
  return texts;
}

}  // namespace

std::string error_line(const std::string& text) {
  constexpr std::string_view mark = "\nLast error:\n";
  const auto at = text.find(mark);
  auto line = head_line(text);
  if (at == text.npos) return line;
  return formatted("{}: {}", line, head_line(std::string_view(text).substr(at + mark.size())));
}

std::unique_ptr<TensorCommunicator> process_group(Backends backends,
                                                  int rank,
                                                  int size,
                                                  int node_size) {
  return std::make_unique<ProcessGroup>(std::move(backends), rank, size, node_size);
}

}  // namespace dimred::distributed
