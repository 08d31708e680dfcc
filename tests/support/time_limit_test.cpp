#include "support/time_limit.h"

#include <gtest/gtest.h>

#include <future>

namespace dimred {
namespace {

TEST(TimeLimit, IsCalledWhileTheWorkGoesOn) {
  std::promise<void> overrun;
  const TimeLimit limit(0.001, [&] { overrun.set_value(); });
  overrun.get_future().wait();  // the work: it ends by the call alone
}

TEST(TimeLimit, EndsWithTheWorkAndWithoutACall) {
  bool called = false;
  {
    const TimeLimit limit(1e6, [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace dimred
