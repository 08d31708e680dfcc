#include "distributed/communicator.h"

#include <algorithm>

namespace dimred::distributed {
namespace {

class NothingPending final : public Pending {
 public:
  void wait() override {}
};

class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(std::span<double> /*values*/) override {}
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
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  void barrier() override {}
};

}  // namespace

const char* name(Collective collective) {
  constexpr std::array<const char*, collective_count> names{
      "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};
  return names[static_cast<std::size_t>(collective)];
}

std::int64_t Communicator::bytes_sent() const {
  std::int64_t sum = 0;
  for (const auto& one : traffic_) sum += one.bytes_sent;
  return sum;
}

std::int64_t Communicator::bytes_between_nodes() const {
  std::int64_t sum = 0;
  for (const auto& one : traffic_) sum += one.bytes_between_nodes;
  return sum;
}

std::unique_ptr<Communicator> single_rank() { return std::make_unique<SingleRank>(); }

bool any_rank(Communicator& communicator, bool flag) {
  std::array<double, 1> count{flag ? 1.0 : 0.0};
  communicator.all_reduce(count);
  return count[0] > 0;
}

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
  if (communicator.size() == 1) return text;
  auto length = torch::tensor({std::ssize(text)});
  communicator.broadcast(length, root);
  auto bytes = torch::empty({length.item<std::int64_t>()}, torch::kUInt8);
  if (communicator.rank() == root) std::ranges::copy(text, bytes.data_ptr<uint8_t>());
  if (bytes.numel() > 0) communicator.broadcast(bytes, root);
  return {bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + bytes.numel()};
}

}  // namespace dimred::distributed
