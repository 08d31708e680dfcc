#include "checkpoints/background_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dimred::checkpoints {
namespace {

TEST(BackgroundWriter, RunsJobsInOrderInAnotherThread) {
  std::vector<int> done;
  std::thread::id worker;
  BackgroundWriter writer(2);
  for (int i = 0; i < 50; ++i) {
    writer.submit([&, i] {
      done.push_back(i);
      worker = std::this_thread::get_id();
    });
  }
  writer.wait();
  std::vector<int> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
  EXPECT_NE(worker, std::this_thread::get_id());
}

TEST(BackgroundWriter, ThrowsTheFirstFailureAtEveryLaterCallAndDropsTheQueue) {
  std::promise<void> go;
  std::atomic<int> ran = 0;
  BackgroundWriter writer(4);
  writer.submit([future = go.get_future().share()] {
    future.wait();
    throw std::runtime_error("disk full");
  });
  writer.submit([&] { ++ran; });
  go.set_value();
  EXPECT_THROW(writer.wait(), std::runtime_error);
  EXPECT_THROW(writer.submit([&] { ++ran; }), std::runtime_error);
  EXPECT_THROW(writer.wait(), std::runtime_error);
  EXPECT_EQ(ran, 0);
}

TEST(BackgroundWriter, SubmitWaitsWhileTheQueueIsFull) {
  std::promise<void> go;
  const auto gate = go.get_future().share();
  std::atomic<int> submitted = 0;
  BackgroundWriter writer(2);
  std::jthread trainer([&] {
    for (int i = 0; i < 5; ++i) {
      writer.submit([gate] { gate.wait(); });
      ++submitted;
    }
  });
  // One job runs and two wait; the fourth submit must not return before the gate opens.
  while (submitted < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(submitted, 3);
  go.set_value();
  trainer.join();
  writer.wait();
  EXPECT_EQ(submitted, 5);
}

TEST(BackgroundWriter, ReleasesWhatAJobHoldsBeforeWaitReturns) {
  const auto data = std::make_shared<int>(1);
  BackgroundWriter writer;
  writer.submit([data] {});
  writer.wait();
  EXPECT_EQ(data.use_count(), 1);
}

TEST(BackgroundWriter, DestructionFinishesTheQueueAndSwallowsErrors) {
  std::atomic<int> ran = 0;
  {
    BackgroundWriter writer(8);
    for (int i = 0; i < 5; ++i) writer.submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 5);
  BackgroundWriter failing;
  failing.submit([] { throw std::runtime_error("swallowed"); });
}

TEST(BackgroundWriter, RefusesAQueueOfNoPlaces) {
  EXPECT_THROW(BackgroundWriter(0), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::checkpoints
