#include "distributed/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace dimred::distributed {
namespace {

TEST(SingleRank, IsATrueNoOp) {
  const auto communicator = connect();
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->size(), 1);
  const auto full = torch::arange(8, torch::kFloat32);
  EXPECT_TRUE(communicator->reduce_scatter(full, {}).is_same(full));
  EXPECT_TRUE(communicator->all_gather(full, {}).is_same(full));
  std::array<double, 2> values{1, 2};
  communicator->all_reduce(values);
  EXPECT_EQ(values, (std::array<double, 2>{1, 2}));
  EXPECT_EQ(communicator->bytes_sent(), 0);
  EXPECT_TRUE(any_rank(*communicator, true));
  EXPECT_FALSE(any_rank(*communicator, false));
}

TEST(Connect, RefusesMoreRanksThanThisVersionRuns) {
  ::setenv("WORLD_SIZE", "2", 1);
  EXPECT_THROW(connect(), std::invalid_argument);
  ::unsetenv("WORLD_SIZE");
}

}  // namespace
}  // namespace dimred::distributed
