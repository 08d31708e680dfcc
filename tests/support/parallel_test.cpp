#include "support/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
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

TEST(InParallel, ThrowsTheFailureOfTheLowestIndexWhicheverCameFirst) {
  std::atomic<bool> later_failed = false;
  const auto work = [&](std::int64_t i) {
    if (i == 0) later_failed.wait(false);
    later_failed = true;
    later_failed.notify_all();
    if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw std::invalid_argument(i == 0 ? "zero" : "one");
  };
  EXPECT_THAT([&] { in_parallel(2, 2, work); },
              testing::ThrowsMessage<std::invalid_argument>("zero"));
}

/// A thread's work; its third copy fails, as a thread does that the system does not start.
struct WorkOfTwoThreads {
  WorkOfTwoThreads(std::function<void()> work, int& copies)
      : run(std::move(work)), copies_left(&copies) {}
  WorkOfTwoThreads(WorkOfTwoThreads&&) = default;
  WorkOfTwoThreads(const WorkOfTwoThreads& other) : run(other.run), copies_left(other.copies_left) {
    if (--*copies_left < 0) throw std::runtime_error("no more");
  }
  void operator()(std::int64_t /*thread*/) const { run(); }

  std::function<void()> run;
  int* copies_left;
};

TEST(StartThreads, EndsThoseThatRunWhereOneCannotStart) {
  std::atomic<bool> stopping = false;
  std::atomic<int> ended = 0;
  int copies = 2;
  const std::function<void(std::int64_t)> work = WorkOfTwoThreads(
      [&] {
        while (!stopping) std::this_thread::yield();
        ++ended;
      },
      copies);
  EXPECT_THAT(
      [&] { start_threads("scope", 4, work, [&] { stopping = true; }); },
      testing::ThrowsMessage<std::runtime_error>("[scope] cannot start thread 3 of 4 (no more); "
                                                 "perhaps this machine allows fewer threads"));
  EXPECT_EQ(ended, 2);
}

TEST(StartThreads, GivesEachItsNumber) {
  std::vector<std::atomic<int>> called(3);
  start_threads(
      "scope", 3, [&](std::int64_t i) { ++called[static_cast<std::size_t>(i)]; }, [] {})
      .clear();
  for (const auto& times : called) EXPECT_EQ(times, 1);
  EXPECT_TRUE(start_threads(
                  "scope", 0, [](std::int64_t) {}, [] {})
                  .empty());
}

}  // namespace
}  // namespace dimred
