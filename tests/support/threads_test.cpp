#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "support/parallel.h"

namespace dimred {
namespace {

TEST(AvailableThreads, FollowsTheAffinityMask) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(available_threads(), CPU_COUNT(&all));
  std::jthread([&] {  // a thread has a mask of its own
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(available_threads(), 1);
  })
      .join();
}

}  // namespace
}  // namespace dimred
