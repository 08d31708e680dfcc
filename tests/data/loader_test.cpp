#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/data/constructed_dataset.h"

namespace dimred::data {
namespace {

using std::chrono::milliseconds;

const ImageShape small_shape{2, 4, 3};

Preprocessing augmented() {
  return {.mean = {0.3, 0.4}, .deviation = {0.2, 0.5}, .pad = 1, .flip = true, .seed = 21};
}

struct CountingDataset : ConstructedDataset {
  using ConstructedDataset::ConstructedDataset;
  mutable std::atomic<int> reads = 0;
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    ++reads;
    return ConstructedDataset::read(index, scratch);
  }
  void wait_for_reads(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (reads < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
};

std::vector<Batch> drain(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

std::vector<Batch> pass(const ConstructedDataset& dataset,
                        const LoaderOptions& options,
                        std::int64_t epoch = 2,
                        std::int64_t first_step = 0) {
  const Order order{.seed = 9, .size = dataset.size()};
  Loader loader(dataset, order, augmented(), options, epoch, first_step);
  return drain(loader);
}

void append(Batch& whole, const Batch& part) {
  whole.images.insert(whole.images.end(), part.images.begin(), part.images.end());
  whole.labels.insert(whole.labels.end(), part.labels.begin(), part.labels.end());
  whole.indices.insert(whole.indices.end(), part.indices.begin(), part.indices.end());
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.global_count, b.global_count);
}

TEST(Loader, BatchesFollowTheOrderAndArePreprocessed) {
  const ConstructedDataset dataset(23, small_shape);
  const Order order{.seed = 9, .size = 23};
  const auto batches = pass(dataset, {.batch_size = 5});
  ASSERT_EQ(batches.size(), 5U);
  std::int64_t position = 0;
  std::vector<std::uint8_t> scratch;
  PrepareScratch prepare_scratch;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.position, position);
    EXPECT_EQ(batch.epoch, 2);
    EXPECT_EQ(batch.shape, small_shape);
    EXPECT_EQ(batch.global_count, batch.count());
    EXPECT_EQ(batch.count(), position == 20 ? 3 : 5);
    std::vector<float> expected(24);
    for (std::size_t i = 0; i < batch.labels.size(); ++i, ++position) {
      const auto index = order.at(2, position);
      EXPECT_EQ(batch.indices[i], index);
      EXPECT_EQ(batch.labels[i], index % 7);
      prepare(dataset.read(index, scratch),
              small_shape,
              augmented(),
              pixel_table(augmented()),
              PixelOrder::planes,
              2,
              index,
              prepare_scratch,
              expected);
      const auto begin = batch.images.begin() + static_cast<std::ptrdiff_t>(24 * i);
      EXPECT_EQ(std::vector<float>(begin, begin + 24), expected);
    }
  }
  EXPECT_EQ(position, 23);
}

TEST(Loader, RanksTogetherGetTheSameGlobalBatches) {
  const ConstructedDataset dataset(47, small_shape);
  const auto whole = pass(dataset, {.batch_size = 10});
  for (const int ranks : {2, 3, 4, 10, 13}) {
    std::vector<std::vector<Batch>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      parts.push_back(pass(dataset, {.batch_size = 10, .rank = rank, .ranks = ranks}));
      ASSERT_EQ(parts.back().size(), whole.size());  // also a rank whose part is empty takes part
    }
    for (std::size_t step = 0; step < whole.size(); ++step) {
      Batch joined = parts[0][step];
      for (int rank = 1; rank < ranks; ++rank) {
        const auto& part = parts[static_cast<std::size_t>(rank)][step];
        EXPECT_EQ(part.position, joined.position + joined.count());
        EXPECT_EQ(part.global_count, whole[step].count());
        append(joined, part);
      }
      expect_equal(joined, whole[step]);
    }
  }
}

TEST(Loader, RemaindersGoByRoundedDownRanges) {
  const ConstructedDataset dataset(10, small_shape);
  // 10 over 3: [0, 3) [3, 6) [6, 10).
  for (const auto& [rank, begin, count] : {std::array{0, 0, 3}, {1, 3, 3}, {2, 6, 4}}) {
    const auto batches = pass(dataset, {.batch_size = 10, .rank = rank, .ranks = 3});
    EXPECT_EQ(batches.at(0).position, begin);
    EXPECT_EQ(batches.at(0).count(), count);
  }
}

TEST(Loader, PrefetchDepthDoesNotChangeTheBatches) {
  const ConstructedDataset dataset(47, small_shape);
  const auto expected = pass(dataset, {.batch_size = 4, .prefetch = 1});
  for (const std::int64_t prefetch : {2, 5, 100}) {
    const auto batches = pass(dataset, {.batch_size = 4, .prefetch = prefetch});
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i]);
  }
}

TEST(Loader, ResumeGivesTheTailOfTheFullPass) {
  const ConstructedDataset dataset(47, small_shape);
  const auto whole = pass(dataset, {.batch_size = 5});
  ASSERT_EQ(whole.size(), 10U);
  for (std::size_t first = 0; first <= whole.size(); ++first) {
    const auto tail = pass(dataset, {.batch_size = 5}, 2, static_cast<std::int64_t>(first));
    ASSERT_EQ(tail.size(), whole.size() - first);
    for (std::size_t i = 0; i < tail.size(); ++i) expect_equal(tail[i], whole[first + i]);
  }
}

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

TEST(Loader, DropLastLeavesThePartialBatchOut) {
  const ConstructedDataset dataset(23, small_shape);
  const auto batches = pass(dataset, {.batch_size = 5, .drop_last = true});
  ASSERT_EQ(batches.size(), 4U);
  for (const auto& batch : batches) EXPECT_EQ(batch.count(), 5);
}

TEST(Loader, CountsStepsOfAnEpoch) {
  EXPECT_EQ(steps_per_epoch(0, 5, false), 0);
  EXPECT_EQ(steps_per_epoch(10, 5, false), 2);
  EXPECT_EQ(steps_per_epoch(11, 5, false), 3);
  EXPECT_EQ(steps_per_epoch(11, 5, true), 2);
  EXPECT_EQ(steps_per_epoch(4, 5, true), 0);
  EXPECT_EQ(steps_per_epoch(4, std::numeric_limits<std::int64_t>::max(), false), 1);
  EXPECT_THROW(steps_per_epoch(4, 0, false), std::invalid_argument);
  EXPECT_THROW(steps_per_epoch(-1, 5, false), std::invalid_argument);
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
    try {
      loader.next();
      FAIL() << "the failure was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "sample " + std::to_string(dataset.broken_index) + " is broken");
    }
  }
}

TEST(Loader, EndStaysTheEnd) {
  const ConstructedDataset dataset(4, small_shape);
  Loader loader(dataset, {.size = 4}, augmented(), {.batch_size = 4}, 0);
  EXPECT_TRUE(loader.next());
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
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

TEST(Loader, RefusesBadOptions) {
  const ConstructedDataset dataset(10, small_shape);
  const auto refuses = [&](LoaderOptions options,
                           std::int64_t size = 10,
                           std::int64_t epoch = 0,
                           std::int64_t first_step = 0) {
    EXPECT_THROW(Loader(dataset, {.size = size}, augmented(), options, epoch, first_step),
                 std::invalid_argument);
  };
  refuses({.batch_size = 0});
  refuses({.prefetch = 0});
  refuses({.rank = 2, .ranks = 2});
  refuses({.rank = -1, .ranks = 2});
  refuses({.ranks = 0});
  refuses({.batch_size = 11, .drop_last = true});
  refuses({}, 9);
  refuses({}, 10, -1);
  refuses({.batch_size = 5}, 10, 0, 3);
  refuses({.batch_size = 5}, 10, 0, -1);
  Preprocessing one_channel{.mean = {0}, .deviation = {1}};
  EXPECT_THROW(Loader(dataset, {.size = 10}, one_channel, {}, 0), std::invalid_argument);
  const ConstructedDataset empty(0, small_shape);
  EXPECT_THROW(Loader(empty, {.size = 0}, augmented(), {}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
