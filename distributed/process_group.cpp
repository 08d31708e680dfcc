#include "distributed/process_group.h"

#include <functional>
#include <utility>

#include "scaling/volume.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "support/text.h"

namespace dimred::distributed {
namespace {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// The rank's single range of columns; shares of more ranges are not made today.
layout::ColumnRange range_of(const layout::Shard& shard) {
  check(shard.memory.size() <= 1, "a shard of several ranges");
  return shard.memory.empty() ? layout::ColumnRange{} : shard.memory.front();
}

torch::Tensor columns(const torch::Tensor& full, const layout::ColumnRange& range) {
  return full.narrow(0, range.begin, range.size());
}

class ProcessGroup final : public Communicator {
 public:
  ProcessGroup(Backends backends, int rank, int size)
      : backends_(std::move(backends)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(std::span<double> values) override {
    if (values.empty()) return;
    auto tensor = torch::from_blob(values.data(), {std::ssize(values)}, torch::kFloat64);
    start_all_reduce(tensor)->wait();
  }

  std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override;

  void all_reduce_maximum(torch::Tensor& values) override {
    auto there = staged(values);
    const auto sent = scaling::all_reduce_bytes(bytes(there), size_);
    counted(Collective::all_reduce, sent, [&] {
      std::vector<at::Tensor> list{there};
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::MAX;
      backend_of(there)->allreduce(list, options)->wait();
    });
    if (!there.is_same(values)) values.copy_(there);
  }

  /// Columns go straight from `full` to their owners; each owner adds what it got in rank order.
  torch::Tensor reduce_scatter(const torch::Tensor& full,
                               const std::vector<layout::Shard>& shards) override {
    const auto there = staged(full);
    const auto own = columns(there, range_of(shards[rank_]));
    auto parts = torch::empty({size_, own.numel()}, there.options());
    const auto sent = scaling::reduce_scatter_bytes(bytes(there), bytes(own));
    counted(Collective::reduce_scatter, sent, [&] {
      exchange(
          backend_of(there),
          [&](int to) { return columns(there, range_of(shards[to])); },
          [&](int from) { return parts[from]; });
    });
    parts[rank_].copy_(own);
    auto sum = parts[0];
    for (int other = 1; other < size_; ++other) sum.add_(parts[other]);
    return sum.clone().to(full.device());  // a view would keep all parts
  }

  torch::Tensor all_gather(const torch::Tensor& own,
                           const std::vector<layout::Shard>& shards) override {
    auto there = staged(own);
    std::int64_t size = 0;
    for (const auto& shard : shards) size = std::max(size, range_of(shard).end);
    auto full = torch::empty({size}, there.options());
    columns(full, range_of(shards[rank_])).copy_(there);
    counted(Collective::all_gather, scaling::all_gather_bytes(bytes(there), size_), [&] {
      exchange(
          backend_of(there),
          [&](int /*to*/) { return there; },
          [&](int from) { return columns(full, range_of(shards[from])); });
    });
    return full.to(own.device());
  }

  void broadcast(torch::Tensor& values, int root) override {
    auto there = staged(values);
    const int distance = (rank_ - root + size_) % size_;
    counted(
        Collective::broadcast, bytes(there) * scaling::broadcast_children(distance, size_), [&] {
          std::vector<at::Tensor> list{there};
          c10d::BroadcastOptions options;
          options.rootRank = root;
          backend_of(there)->broadcast(list, options)->wait();
        });
    if (!there.is_same(values)) values.copy_(there);
  }

  std::vector<std::string> gather(const std::string& text) override;

  void barrier() override {
    counted(Collective::barrier, 0, [&] { backends_.host->barrier()->wait(); });
  }

  /// Runs one collective: its seconds and bytes are counted, its failure is named.
  void counted(Collective kind, std::int64_t bytes, const std::function<void()>& collective) {
    auto& count = traffic(kind);
    const ScopedSeconds running(count.seconds);
    ++count.calls;
    count.bytes_sent += bytes;
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
                                       head_line(error.what())));
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

  /// Sends to and receives from every other rank at once, each beginning with its neighbour so that
  /// nobody is everybody's first. Empty ranges are skipped on both sides.
  void exchange(const c10::intrusive_ptr<c10d::Backend>& backend,
                const std::function<torch::Tensor(int)>& out_for,
                const std::function<torch::Tensor(int)>& in_from) const {
    const bool coalesce = backend->supportsCoalescing();  // NCCL wants all of them as one group
    Works works;
    if (coalesce) backend->startCoalescing();
    for (int distance = 1; distance < size_; ++distance) {
      const int to = (rank_ + distance) % size_;
      const int from = (rank_ - distance + size_) % size_;
      std::vector<at::Tensor> out{out_for(to)}, in{in_from(from)};
      if (in[0].numel() > 0) works.push_back(backend->recv(in, from, /*tag=*/0));
      if (out[0].numel() > 0) works.push_back(backend->send(out, to, /*tag=*/0));
    }
    if (coalesce) works = {backend->endCoalescing()};
    for (const auto& work : works) work->wait();
  }

  Backends backends_;
  int rank_, size_;
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
  count.bytes_sent += scaling::all_reduce_bytes(bytes(there), size_);
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
  all_reduce(lengths);
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

std::unique_ptr<Communicator> process_group(Backends backends, int rank, int size) {
  return std::make_unique<ProcessGroup>(std::move(backends), rank, size);
}

}  // namespace dimred::distributed
