#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "distributed/process_group.h"

namespace dimred::distributed {
namespace {

/// NCCL refuses two ranks on one device, so one rank is what a machine with one device can run.
TEST(DeviceNccl, CollectivesOfOneRankKeepItsValues) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group_of = [&](const char* keys) {
    return GroupOptions{.store = c10::make_intrusive<c10d::PrefixStore>(keys, store),
                        .rank = 0,
                        .size = 1,
                        .timeout = 30,
                        .address = "127.0.0.1"};
  };
  const auto nccl = make_nccl(group_of("nccl"));
  ASSERT_TRUE(nccl) << "this build has no NCCL";
  const auto communicator =
      process_group({.host = make_gloo(group_of("gloo")), .device = nccl}, 0, 1, 1);
  const auto expected = torch::arange(1000, torch::kFloat32);
  const std::vector<layout::Shard> shards{{.memory = {{0, 1000}}}};
  auto values = expected.cuda();
  communicator->all_reduce(values);
  communicator->all_reduce_maximum(values);
  communicator->broadcast(values, 0);
  const auto own = communicator->reduce_scatter(values, shards);
  EXPECT_TRUE(torch::equal(own.cpu(), expected));
  EXPECT_TRUE(torch::equal(communicator->all_gather(own, shards).cpu(), expected));
  std::vector<double> numbers{1, 2};
  communicator->sum(numbers);
  EXPECT_EQ(numbers, (std::vector<double>{1, 2}));
  communicator->barrier();
}

}  // namespace
}  // namespace dimred::distributed
