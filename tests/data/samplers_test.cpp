#include "data/samplers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::HasSubstr;

std::vector<std::int64_t> all_of(const Sampler& sampler, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> indices;
  for (std::int64_t position = 0; position < sampler.size(); ++position)
    indices.push_back(sampler.at(seed, epoch, position));
  return indices;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> indices) {
  std::ranges::sort(indices);
  return indices;
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

const std::vector<std::int64_t> sizes = {40, 0, 25, 61, 7, 33};

TEST(Windowed, IsAPermutationInEveryEpoch) {
  const auto order = windowed_shuffle(sizes, 10);
  EXPECT_EQ(order->size(), 166);
  for (std::int64_t epoch = 0; epoch < 5; ++epoch)
    EXPECT_EQ(sorted(all_of(*order, 3, epoch)), counted(166));
  EXPECT_NE(all_of(*order, 3, 0), all_of(*order, 3, 1));
  EXPECT_NE(all_of(*order, 3, 0), all_of(*order, 4, 0));
}

/// Window 1: the files one after another in the epoch's order, each from its beginning to its end.
TEST(Windowed, ReadsFilesInTurn) {
  const auto order = windowed_shuffle(sizes, 1);
  std::set<std::vector<std::int64_t>> file_orders;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto indices = all_of(*order, 1, epoch);
    std::vector<std::int64_t> first_of_file;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (i == 0 || indices[i] != indices[i - 1] + 1) first_of_file.push_back(indices[i]);
    EXPECT_LE(first_of_file.size(), 5U);
    file_orders.insert(first_of_file);
  }
  EXPECT_GT(file_orders.size(), 10U);
}

/// A window holds exactly the samples of that run of the unshuffled stream.
TEST(Windowed, ShufflesWithinWindowsAlone) {
  const auto stream = all_of(*windowed_shuffle(sizes, 1), 7, 2);
  const auto order = all_of(*windowed_shuffle(sizes, 12), 7, 2);
  int moved = 0;
  for (std::size_t begin = 0; begin < stream.size(); begin += 12) {
    const auto end = std::min(begin + 12, stream.size());
    const std::vector<std::int64_t> a(stream.begin() + static_cast<std::ptrdiff_t>(begin),
                                      stream.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<std::int64_t> b(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                      order.begin() + static_cast<std::ptrdiff_t>(end));
    EXPECT_EQ(sorted(a), sorted(b));
    moved += a == b ? 0 : 1;
  }
  EXPECT_GE(moved, 12);
}

/// Two windows of one epoch, and one window of two epochs, are permuted differently.
TEST(Windowed, DrawsEveryWindowAnew) {
  const auto order = windowed_shuffle({200}, 50);
  std::set<std::vector<std::int64_t>> patterns;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto indices = all_of(*order, 1, epoch);
    for (std::size_t window = 0; window < 4; ++window) {
      std::vector<std::int64_t> pattern;
      for (std::size_t i = 0; i < 50; ++i)
        pattern.push_back(indices[50 * window + i] - static_cast<std::int64_t>(50 * window));
      patterns.insert(pattern);
    }
  }
  EXPECT_EQ(patterns.size(), 12U);
}

TEST(Windowed, IsTheSameFromSeveralThreadsAndInAnyOrderOfEpochs) {
  const auto expected = std::pair(all_of(*windowed_shuffle(sizes, 10), 1, 0),
                                  all_of(*windowed_shuffle(sizes, 10), 1, 9));
  const auto order = windowed_shuffle(sizes, 10);
  std::vector<std::jthread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const bool late = (static_cast<std::size_t>(i) + t) % 2 == 0;
        wrong[t] += all_of(*order, 1, late ? 9 : 0) != (late ? expected.second : expected.first);
      }
    });
  threads.clear();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Windowed, RefusesBadSizes) {
  EXPECT_THROW(windowed_shuffle({3}, 0), std::invalid_argument);
  EXPECT_THROW(windowed_shuffle({3, -1}, 2), std::invalid_argument);
  EXPECT_THROW(windowed_shuffle({0}, 2), std::invalid_argument);
}

/// The loader gives rank r the positions [r count / ranks, (r + 1) count / ranks) of a batch.
TEST(FileShares, GiveEveryRankItsOwnShareInEveryBatch) {
  constexpr std::int64_t share = 11, ranks = 3, batch = 12;
  const auto order = file_shares(share, ranks, batch);
  ASSERT_EQ(order->size(), share * ranks);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto indices = all_of(*order, 5, epoch);
    EXPECT_EQ(sorted(indices), counted(share * ranks));
    for (std::int64_t begin = 0; begin < order->size(); begin += batch) {
      const auto count = std::min(batch, order->size() - begin);
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        for (auto i = rank * count / ranks; i < (rank + 1) * count / ranks; ++i)
          EXPECT_EQ(indices[static_cast<std::size_t>(begin + i)] / share, rank);
    }
  }
  EXPECT_NE(all_of(*order, 5, 0), all_of(*order, 5, 1));
}

TEST(FileShares, RefuseABatchThatDoesNotDivide) {
  EXPECT_THROW(file_shares(10, 3, 64), std::invalid_argument);
  EXPECT_THROW(file_shares(0, 3, 63), std::invalid_argument);
}

TEST(EvenShares, GiveFilesInTurnAndPadWithRepeats) {
  const auto indices = even_shares({4, 3, 2, 6}, 2, 1);  // rank 0: files 0, 2; rank 1: files 1, 3
  ASSERT_EQ(indices.size(), 18U);
  EXPECT_THAT(std::vector(indices.begin(), indices.begin() + 6),
              testing::ElementsAre(0, 1, 2, 3, 7, 8));
  EXPECT_THAT(std::vector(indices.begin() + 9, indices.end()),
              testing::ElementsAre(4, 5, 6, 9, 10, 11, 12, 13, 14));
  const std::set<std::int64_t> repeats(indices.begin() + 6, indices.begin() + 9);
  EXPECT_EQ(repeats.size(), 3U);
  EXPECT_THAT(repeats, testing::Each(testing::AnyOf(0, 1, 2, 3, 7, 8)));
  EXPECT_EQ(even_shares({4, 3, 2, 6}, 2, 1), indices);
}

TEST(EvenShares, NeedAFileForEveryRank) {
  EXPECT_THAT(error_of([] {
                even_shares({5, 0, 5}, 3, 1);
              }),
              HasSubstr("needs a file for each of 3 ranks, received 2"));
}

TEST(Order, UsesItsArrangement) {
  const Order order{.seed = 4, .size = 166, .sampler = windowed_shuffle(sizes, 10)};
  EXPECT_EQ(order.at(2, 17), windowed_shuffle(sizes, 10)->at(4, 2, 17));
  Order plain = order;
  plain.shuffled = false;
  EXPECT_EQ(plain.at(2, 17), 17);
  const Order wrong{.seed = 4, .size = 10, .sampler = windowed_shuffle(sizes, 10)};
  EXPECT_THROW(wrong.at(0, 0), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
