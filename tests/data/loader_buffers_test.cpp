#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/data/loader_passes.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::data {
namespace {

using std::chrono::milliseconds;

TEST(Loader, RecycledBuffersAreReusedAndLeaveNoTrace) {
  const ConstructedDataset dataset(203, small_shape);
  const auto expected = pass(dataset, {.batch_size = 10});
  const Order order{.seed = 9, .size = dataset.size()};
  Loader loader(dataset, order, augmented(), {.batch_size = 10, .prefetch = 2}, 2);
  int fresh = 0;  // buffers that were never recycled: those have a mark, a larger capacity
  std::size_t step = 0;
  while (auto batch = loader.next()) {
    expect_equal(*batch, expected.at(step++));
    fresh += batch->images.capacity() < 1000 ? 1 : 0;
    batch->images.reserve(1000);
    std::fill(batch->images.begin(), batch->images.end(), -1.0F);
    loader.recycle(std::move(*batch));
  }
  EXPECT_EQ(step, 21U);
  // prefetch ready, one being filled, one with the caller.
  EXPECT_LE(fresh, 4);
}

TEST(Loader, LaterEpochsTakeNoFreshMemory) {
  struct Counting : std::pmr::memory_resource {
    std::atomic<int> taken = 0;
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      ++taken;
      return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
      std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
  };
  const auto memory = std::make_shared<Counting>();
  const LoaderOptions options{
      .batch_size = 10, .prefetch = 2, .pool = std::make_shared<BatchPool>(memory)};
  const ConstructedDataset dataset(200, small_shape);
  const Order order{.seed = 9, .size = dataset.size()};
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    Loader loader(dataset, order, augmented(), options, epoch);
    for (int step = 0; step < 5; ++step) loader.recycle(*loader.next());  // and some nobody takes
  }
  EXPECT_GE(memory->taken, 1);
  EXPECT_LE(memory->taken, 4);  // prefetch ready, one being filled, one with the caller
}

TEST(Loader, PrefetchIsBounded) {
  const CountingDataset dataset(1000, small_shape);
  const Order order{.seed = 9, .size = 1000};
  Loader loader(dataset, order, augmented(), {.batch_size = 10, .prefetch = 3}, 0);
  dataset.wait_for_reads(30);
  std::this_thread::sleep_for(milliseconds(30));  // room to run too far
  EXPECT_EQ(dataset.reads, 30);
  EXPECT_EQ(drain(loader).size(), 100U);
  EXPECT_EQ(dataset.reads, 1000);
}

TEST(Loader, StopsCleanlyAtAnyMoment) {
  const ConstructedDataset dataset(2000, small_shape);
  const Order order{.seed = 9, .size = 2000};
  for (int taken = 0; taken < 12; ++taken) {
    for (const std::int64_t prefetch : {1, 4}) {
      Loader loader(dataset, order, augmented(), {.batch_size = 50, .prefetch = prefetch}, 0);
      for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next());
    }
  }
}

TEST(Loader, StopsInTheMiddleOfABatch) {
  CountingDataset dataset(2000, small_shape);
  dataset.read_time = milliseconds(10);
  const auto start = std::chrono::steady_clock::now();
  {
    const Loader loader(dataset, {.size = 2000}, augmented(), {.batch_size = 2000}, 0);
    dataset.wait_for_reads(3);
  }
  // The whole batch takes 20 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(dataset.reads, 500);
}

TEST(Loader, ThreadsFailureReachesNextAfterTheSoundBatches) {
  ConstructedDataset dataset(40, small_shape);
  const Order order{.seed = 9, .size = 40};
  dataset.broken_index = order.at(0, 25);
  Loader loader(dataset, order, augmented(), {.batch_size = 10}, 0);
  ASSERT_TRUE(loader.next());
  ASSERT_TRUE(loader.next());
  for (int attempt = 0; attempt < 2; ++attempt) {  // and stays
    EXPECT_EQ(thrown<std::runtime_error>([&] { loader.next(); }),
              "sample " + std::to_string(dataset.broken_index) + " is broken");
  }
}

TEST(Loader, MeasuresTheWaitingTime) {
  ConstructedDataset dataset(4, small_shape);
  dataset.read_time = milliseconds(20);
  Loader loader(dataset, {.size = 4}, augmented(), {.batch_size = 4}, 0);
  ASSERT_TRUE(loader.next());
  // The batch takes 80 ms from the construction on, of which the caller may lose 60 elsewhere.
  EXPECT_GT(loader.seconds_waited(), 0.02);
  Loader ahead(dataset, {.size = 4}, augmented(), {.batch_size = 4}, 0);
  std::this_thread::sleep_for(milliseconds(600));  // the batch is ready long before
  ASSERT_TRUE(ahead.next());
  EXPECT_EQ(ahead.seconds_waited(), 0);
}

}  // namespace
}  // namespace dimred::data
