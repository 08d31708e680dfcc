#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string>

#include "tests/data/loader_passes.h"

namespace dimred::data {
namespace {

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
      Preparer(augmented(), small_shape)
          .prepare(dataset.read(index, scratch), 2, index, prepare_scratch, expected);
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

TEST(Loader, EndStaysTheEnd) {
  const ConstructedDataset dataset(4, small_shape);
  Loader loader(dataset, {.size = 4}, augmented(), {.batch_size = 4}, 0);
  EXPECT_TRUE(loader.next());
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(Loader, RefusesBadOptions) {
  const ConstructedDataset dataset(10, small_shape);
  const auto refuses = [&](const LoaderOptions& options,
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
