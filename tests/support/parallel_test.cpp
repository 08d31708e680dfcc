#include "support/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace dimred {
namespace {

TEST(InParallel, TakesEveryIndexOnce) {
  for (const std::int64_t threads : {1, 3, 200}) {
    std::vector<std::atomic<int>> taken(100);
    in_parallel(100, threads, [&](std::int64_t i) { ++taken[static_cast<std::size_t>(i)]; });
    for (const auto& times : taken) EXPECT_EQ(times, 1);
  }
}

TEST(InParallel, EndsAtAnExceptionAndThrowsIt) {
  std::atomic<int> calls = 0;
  const auto work = [&](std::int64_t i) {
    ++calls;
    if (i == 2) throw std::invalid_argument("two");
  };
  EXPECT_THROW(in_parallel(1000, 1, work), std::invalid_argument);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace dimred
