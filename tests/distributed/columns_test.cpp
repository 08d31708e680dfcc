#include "distributed/columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/tools/gloo_ranks.h"

namespace dimred::distributed {
namespace {

constexpr std::int64_t rows = 7;

/// Forty replicated elements, and of seven rows of three this rank's.
layout::Layout layout_of(int rank, int ranks) {
  const auto share = (rows + ranks - 1) / ranks;
  const auto first = std::min<std::int64_t>(rows, rank * share);
  const auto count = std::min(rows, first + share) - first;
  return layout::make_layout({{"dense", {40}},
                              {.name = "head",
                               .shape = {count, 3},
                               .placement = layout::Placement::sharded,
                               .global_rows = rows,
                               .first_row = first}});
}

class ColumnsOnRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ColumnsOnRanks, testing::Values(2, 3, 5));

TEST_P(ColumnsOnRanks, ReplicatedColumnsAreSummedAndShardedOnesStay) {
  const int ranks = GetParam();
  on_gloo_ranks(ranks, [&](TensorCommunicator& communicator) {
    const int rank = communicator.rank();
    const auto layout = layout_of(rank, ranks);
    const auto columns = columns_of(layout, communicator);
    auto full = torch::arange(layout.memory_size, torch::kFloat32) + 1000 * rank;
    const auto sharded = full.narrow(0, 48, layout.memory_size - 48).clone();
    const auto own = reduce_scatter(communicator, full, columns);
    EXPECT_EQ(own.numel(), columns.own.memory_columns());
    const auto again = all_gather(communicator, own, columns);
    ASSERT_EQ(again.numel(), layout.memory_size);
    const auto sum = torch::arange(48, torch::kFloat32) * ranks + 500 * ranks * (ranks - 1);
    EXPECT_TRUE(torch::equal(again.narrow(0, 0, 48), sum));
    EXPECT_TRUE(torch::equal(again.narrow(0, 48, layout.memory_size - 48), sharded));
    EXPECT_TRUE(torch::equal(own_columns(again, columns), own));
  });
}

TEST(Columns, OfOneRankAreAllOfThemWithoutACopy) {
  const auto communicator = single_rank();
  const auto columns = columns_of(layout::make_layout({{"w", {40}}}), *communicator);
  const auto full = torch::arange(48, torch::kFloat32);
  EXPECT_TRUE(reduce_scatter(*communicator, full, columns).is_same(full));
  EXPECT_TRUE(all_gather(*communicator, full, columns).is_same(full));
  EXPECT_EQ(own_columns(full, columns).data_ptr(), full.data_ptr());
}

}  // namespace
}  // namespace dimred::distributed
