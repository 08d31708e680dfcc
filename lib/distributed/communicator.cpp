#include "distributed/communicator.h"

namespace dimred::distributed {
namespace {

class NothingPending final : public Pending {
 public:
  void wait() override {}
};

class SingleRank final : public Alone<TensorCommunicator> {
 public:
  std::unique_ptr<Pending> start_all_reduce(torch::Tensor /*values*/) override {
    return std::make_unique<NothingPending>();
  }
  void all_reduce_maximum(torch::Tensor& /*values*/) override {}
  torch::Tensor reduce_scatter(const torch::Tensor& full,
                               const std::vector<layout::Shard>& /*shards*/) override {
    return full;
  }
  torch::Tensor all_gather(const torch::Tensor& own,
                           const std::vector<layout::Shard>& /*shards*/) override {
    return own;
  }
  void broadcast(torch::Tensor& /*values*/, int /*root*/) override {}
  void barrier() override {}
};

}  // namespace

const char* name(Collective collective) {
  constexpr std::array<const char*, collective_count> names{
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};
  return names[static_cast<std::size_t>(collective)];
}

std::int64_t TensorCommunicator::bytes_sent() const {
  std::int64_t sum = 0;
  for (const auto& one : traffic_) sum += one.bytes_sent;
  return sum;
}

std::unique_ptr<TensorCommunicator> single_rank() { return std::make_unique<SingleRank>(); }

}  // namespace dimred::distributed
