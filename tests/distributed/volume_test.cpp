#include "distributed/volume.h"

#include <gtest/gtest.h>

namespace dimred::volume {
namespace {

TEST(Volume, OneRankSendsNothing) {
  EXPECT_EQ(all_reduce_bytes(1000, 1), 0);
  EXPECT_EQ(reduce_scatter_bytes(1000, 1000), 0);
  EXPECT_EQ(all_gather_bytes(1000, 1), 0);
  EXPECT_EQ(broadcast_children(0, 1), 0);
}

/// An all-reduce is a reduce-scatter and an all-gather.
TEST(Volume, AllReduceIsReduceScatterAndAllGather) {
  for (const std::int64_t ranks : {2, 3, 8, 100}) {
    const std::int64_t own = 12, full = own * ranks;
    EXPECT_EQ(all_reduce_bytes(full, ranks),
              reduce_scatter_bytes(full, own) + all_gather_bytes(own, ranks));
  }
}

/// Each rank but the root receives once, whoever sends.
TEST(Volume, BroadcastReachesEveryRankOnce) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    int sent = 0;
    for (int rank = 0; rank < ranks; ++rank) sent += broadcast_children(rank, ranks);
    EXPECT_EQ(sent, ranks - 1) << ranks << " ranks";
  }
}

/// The ranks reached double: of 8 the root sends 3 times, its first child twice, the last never.
TEST(Volume, BroadcastIsABinomialTree) {
  for (const auto& [rank, children] : {std::pair{0, 3}, {1, 2}, {2, 1}, {3, 1}, {4, 0}, {7, 0}})
    EXPECT_EQ(broadcast_children(rank, 8), children) << "rank " << rank;
}

}  // namespace
}  // namespace dimred::volume
