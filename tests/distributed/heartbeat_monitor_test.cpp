#include "distributed/heartbeat_monitor.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace dimred::distributed {
namespace {

using std::chrono::steady_clock;

/// The watches of some ranks in one process, and what each was told.
struct Monitors {
  explicit Monitors(int size, double timeout) : reported(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      list.push_back(std::make_unique<HeartbeatMonitor>(
          store,
          HeartbeatOptions{.rank = rank, .size = size, .timeout = timeout},
          [this, rank](const auto& f) {
            const std::lock_guard lock(mutex);
            reported[static_cast<std::size_t>(rank)].push_back(f);
          }));
    }
  }
  std::size_t told_to(std::size_t rank) {
    const std::lock_guard lock(mutex);
    return reported[rank].size();
  }

  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::vector<std::vector<Failure>> reported;
  std::vector<std::unique_ptr<HeartbeatMonitor>> list;
};

TEST(HeartbeatMonitor, AFailureReachesEverybodyOnceAndTheFirstStands) {
  Monitors monitors(3, 30);
  const auto first = monitors.list[1]->report({.rank = 1, .text = "disk full", .exit_code = 1});
  const auto second = monitors.list[2]->report({.rank = 2, .text = "later", .exit_code = 2});
  EXPECT_EQ(first.text, "disk full");
  EXPECT_EQ(second.text, "disk full");
  for (const auto& monitor : monitors.list) {
    const auto failure = monitor->failure(5);
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->rank, 1);
    EXPECT_EQ(failure->text, "disk full");
  }
  // The failure can be read before the callback of that rank has run.
  const auto latest = steady_clock::now() + std::chrono::seconds(10);
  while (monitors.told_to(0) == 0 && steady_clock::now() < latest) std::this_thread::yield();
  EXPECT_EQ(monitors.told_to(0), 1U);
}

TEST(HeartbeatMonitor, ASilentRankIsNamed) {
  for (const int silent : {0, 2}) {
    Monitors monitors(3, 1.5);
    monitors.list[static_cast<std::size_t>(silent)].reset();  // gone without leave()
    const auto start = steady_clock::now();
    const auto failure = monitors.list[1]->failure(10);
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->rank, silent);
    EXPECT_NE(failure->text.find("no sign of life"), std::string::npos);
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST(HeartbeatMonitor, ARankThatLeftIsNotMissed) {
  Monitors monitors(2, 1);
  monitors.list[1]->leave();
  monitors.list[1].reset();
  EXPECT_FALSE(monitors.list[0]->failure(3).has_value());
}

/// Memory for the stack of one more thread, and not of two.
void leave_room_for_one_thread() {
  constexpr std::size_t stack = 64 << 20;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_setattr_default_np(&attributes);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto now = pages * static_cast<rlim_t>(::getpagesize());
  const rlimit limit{.rlim_cur = now + stack * 3 / 2, .rlim_max = now + stack * 3 / 2};
  if (pages == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) std::exit(3);
}

TEST(HeartbeatMonitorDeathTest, SaysThatItsSecondThreadCannotStart) {
  const auto start = [] {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    leave_room_for_one_thread();
    try {
      const HeartbeatMonitor monitor(store, {.rank = 0, .size = 1}, [](const Failure&) {});
    } catch (const std::runtime_error& error) {
      std::fputs(error.what(), stderr);
      std::exit(0);
    }
    std::exit(4);
  };
  EXPECT_EXIT(
      start(), testing::ExitedWithCode(0), "\\[distributed\\] cannot start thread 2 of 2 \\(");
}

}  // namespace
}  // namespace dimred::distributed
