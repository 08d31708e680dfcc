#include "distributed/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <mutex>
#include <numeric>

#include "distributed/process_group.h"
#include "distributed/volume.h"
#include "support/agreement.h"
#include "tests/tools/gloo_ranks.h"

namespace dimred::distributed {
namespace {

/// Shares of `sizes[r]` columns one after another.
std::vector<layout::Shard> shards_of(const std::vector<std::int64_t>& sizes) {
  std::vector<layout::Shard> shards;
  std::int64_t begin = 0;
  for (const auto size : sizes) {
    shards.push_back({});
    if (size > 0) shards.back().memory.push_back({begin, begin + size});
    begin += size;
  }
  return shards;
}

torch::Tensor own_of(const torch::Tensor& full, const layout::Shard& shard) {
  if (shard.memory.empty()) return full.narrow(0, 0, 0);
  return full.narrow(0, shard.memory[0].begin, shard.memory[0].size());
}

/// A vector that differs on every rank and whose sum over ranks shows the order of additions.
torch::Tensor vector_of(int rank, std::int64_t size) {
  const auto places = torch::arange(size, torch::kFloat64);
  return (places * (rank + 1) * 0.1 + 1e4 * rank).sin().mul(1e3).to(torch::kFloat32);
}

TEST(SingleRank, IsATrueNoOp) {
  const auto communicator = single_rank();
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->size(), 1);
  const auto full = torch::arange(8, torch::kFloat32);
  EXPECT_TRUE(communicator->reduce_scatter(full, {}).is_same(full));
  EXPECT_TRUE(communicator->all_gather(full, {}).is_same(full));
  std::array<double, 2> values{1, 2};
  communicator->sum(values);
  EXPECT_EQ(values, (std::array<double, 2>{1, 2}));
  EXPECT_EQ(communicator->gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(communicator->bytes_sent(), 0);
  EXPECT_TRUE(any_rank(*communicator, true));
  EXPECT_FALSE(any_rank(*communicator, false));
}

class OverRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OverRanks, testing::Values(2, 3, 4, 5));

TEST_P(OverRanks, AllReduceSumsAndCounts) {
  const int ranks = GetParam();
  on_gloo_ranks(ranks, [&](TensorCommunicator& communicator) {
    std::vector<double> values{1.0, communicator.rank() + 0.5};
    communicator.sum(values);
    EXPECT_EQ(values[0], ranks);
    EXPECT_EQ(values[1], ranks * (ranks - 1) / 2.0 + ranks * 0.5);
    auto vector = torch::full({1000}, communicator.rank() + 1.0F);
    communicator.all_reduce(vector);
    EXPECT_TRUE(torch::all(vector == ranks * (ranks + 1) / 2).item<bool>());
    const auto& traffic = std::as_const(communicator).traffic(Collective::all_reduce);
    EXPECT_EQ(traffic.calls, 2);
    EXPECT_EQ(traffic.bytes_sent,
              volume::all_reduce_bytes(16, ranks) + volume::all_reduce_bytes(4000, ranks));
    EXPECT_GT(traffic.seconds, 0);
  });
}

TEST_P(OverRanks, AllReduceMaximumTakesTheLargestAndCounts) {
  const int ranks = GetParam();
  on_gloo_ranks(ranks, [&](TensorCommunicator& communicator) {
    const double rank = communicator.rank();
    const double infinity = std::numeric_limits<double>::infinity();
    auto values = torch::tensor({rank, -rank, rank == 1 ? 0.5 : -infinity}, torch::kFloat64);
    communicator.all_reduce_maximum(values);
    EXPECT_TRUE(torch::equal(values, torch::tensor({ranks - 1.0, 0.0, 0.5}, torch::kFloat64)));
    EXPECT_EQ(communicator.bytes_sent(), volume::all_reduce_bytes(24, ranks));
  });
}

TEST_P(OverRanks, ReduceScatterAddsInRankOrderAndSendsOnlyTheOthersColumns) {
  const int ranks = GetParam();
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 7);
  sizes[1] = 0;  // a rank without columns
  sizes[0] = 100;
  const auto shards = shards_of(sizes);
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  auto expected = vector_of(0, size);
  for (int rank = 1; rank < ranks; ++rank) expected = expected + vector_of(rank, size);
  on_gloo_ranks(ranks, [&](TensorCommunicator& communicator) {
    const auto& shard = shards[static_cast<std::size_t>(communicator.rank())];
    const auto full = vector_of(communicator.rank(), size);
    const auto own = communicator.reduce_scatter(full, shards);
    EXPECT_TRUE(torch::equal(own, own_of(expected, shard)));
    EXPECT_TRUE(torch::equal(full, vector_of(communicator.rank(), size)));
    EXPECT_EQ(communicator.bytes_sent(), 4 * (size - own.numel()));
    const auto all = communicator.all_gather(own, shards);
    EXPECT_TRUE(torch::equal(all, expected));
    EXPECT_EQ(communicator.bytes_sent(), 4 * (size - own.numel()) + 4 * own.numel() * (ranks - 1));
  });
}

/// Nodes of ranks, and what their exchanges must send: each column once for each other node.
struct NodeCase {
  int nodes, node_size;
};
class OverNodes : public testing::TestWithParam<NodeCase> {};
INSTANTIATE_TEST_SUITE_P(Nodes,
                         OverNodes,
                         testing::Values(NodeCase{2, 4}, NodeCase{4, 2}, NodeCase{3, 1}));

TEST_P(OverNodes, ExchangesAddWithinNodesFirstAndSendEachColumnToANodeOnce) {
  const auto [nodes, node_size] = GetParam();
  const int ranks = nodes * node_size;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 7);
  sizes[1] = 0;  // a rank without columns
  sizes[0] = 100;
  const auto shards = shards_of(sizes);
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  torch::Tensor expected;
  for (int node = 0; node < nodes; ++node) {
    auto sum = vector_of(node * node_size, size);
    for (int place = 1; place < node_size; ++place)
      sum = sum + vector_of(node * node_size + place, size);
    expected = node == 0 ? sum : expected + sum;
  }
  std::mutex mutex;
  std::int64_t sent = 0, between = 0;
  const auto work = [&](TensorCommunicator& communicator) {
    const auto& shard = shards[static_cast<std::size_t>(communicator.rank())];
    const auto full = vector_of(communicator.rank(), size);
    const auto own = communicator.reduce_scatter(full, shards);
    EXPECT_TRUE(torch::equal(own, own_of(expected, shard)));
    EXPECT_TRUE(torch::equal(full, vector_of(communicator.rank(), size)));
    EXPECT_TRUE(torch::equal(communicator.all_gather(own, shards), expected));
    const std::lock_guard lock(mutex);
    sent += communicator.bytes_sent();
    for (const auto kind : {Collective::reduce_scatter, Collective::all_gather})
      between += std::as_const(communicator).traffic(kind).bytes_between_nodes;
  };
  on_gloo_ranks(ranks, work, node_size);
  EXPECT_EQ(between, 2 * 4 * size * (nodes - 1));
  EXPECT_EQ(sent, 2 * 4 * size * (ranks - 1));
}

/// Shares that travel in several parts; sums of whole numbers are exact.
TEST_P(OverNodes, LargeSharesTravelInParts) {
  const auto [nodes, node_size] = GetParam();
  const int ranks = nodes * node_size;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 700'001);
  for (int rank = 1; rank < ranks; rank += node_size)
    sizes[static_cast<std::size_t>(rank)] = 0;  // a whole place
  sizes[0] = 3;                                 // fewer columns than parts
  const auto shards = shards_of(sizes);
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto places = torch::arange(size, torch::kFloat32).remainder(1000);
  const auto work = [&](TensorCommunicator& communicator) {
    const auto& shard = shards[static_cast<std::size_t>(communicator.rank())];
    const auto own = communicator.reduce_scatter(places + communicator.rank(), shards);
    const auto expected = places * ranks + ranks * (ranks - 1) / 2;
    EXPECT_TRUE(torch::equal(own, own_of(expected, shard)));
    EXPECT_TRUE(torch::equal(communicator.all_gather(own, shards), expected));
  };
  on_gloo_ranks(ranks, work, node_size);
}

TEST_P(OverRanks, BroadcastReachesEverybodyFromAnyRoot) {
  const int ranks = GetParam();
  std::mutex mutex;
  std::int64_t sent = 0;
  on_gloo_ranks(ranks, [&](TensorCommunicator& communicator) {
    for (int root = 0; root < ranks; ++root) {
      auto values = torch::full({50}, communicator.rank() + 1.0F);
      communicator.broadcast(values, root);
      EXPECT_TRUE(torch::all(values == root + 1).item<bool>());
    }
    const std::lock_guard lock(mutex);
    sent += communicator.bytes_sent();
  });
  // Every rank but the root receives the vector once.
  EXPECT_EQ(sent, std::int64_t{200} * ranks * (ranks - 1));
}

TEST_P(OverRanks, TextsAreGatheredInRankOrder) {
  on_gloo_ranks(GetParam(), [&](TensorCommunicator& communicator) {
    const auto text = std::string(static_cast<std::size_t>(communicator.rank()), 'x');
    const auto all = communicator.gather(text);
    ASSERT_EQ(static_cast<int>(all.size()), communicator.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank].size(), rank);
    EXPECT_EQ(broadcast(communicator, communicator.rank() == 1 ? "one" : ""), "");
    EXPECT_EQ(broadcast(communicator, communicator.rank() == 1 ? "one" : "", 1), "one");
  });
}

TEST_P(OverRanks, AFlagOfOneIsEverybodys) {
  on_gloo_ranks(GetParam(), [](TensorCommunicator& communicator) {
    EXPECT_TRUE(any_rank(communicator, communicator.rank() == 1));
    EXPECT_FALSE(any_rank(communicator, false));
  });
}

TEST(Nccl, AnErrorsReasonStandsBehindItsFirstLine) {
  const auto line = error_line(
      "NCCL error in: ProcessGroupNCCL.cpp:94, invalid usage\nncclInvalidUsage: See above.\n"
      "Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\n");
  EXPECT_EQ(
      line,
      "NCCL error in: ProcessGroupNCCL.cpp:94, invalid usage: Duplicate GPU detected : rank 1 "
      "and rank 0 both on CUDA device 1b000");
  EXPECT_EQ(error_line("one\ntwo"), "one");
}

TEST(Gloo, ADeadRankIsAFailureThatNamesRankAndCollective) {
  const auto run = [] {
    on_gloo_ranks(2, [](TensorCommunicator& communicator) {
      communicator.barrier();
      if (communicator.rank() == 1) throw std::invalid_argument("gone");
      std::array<double, 1> value{1};
      communicator.sum(value);
    });
  };
  EXPECT_THAT(run,
              testing::ThrowsMessage<CollectiveFailed>(
                  testing::StartsWith("[distributed] all_reduce failed on rank 0 of 2: ")));
}

}  // namespace
}  // namespace dimred::distributed
