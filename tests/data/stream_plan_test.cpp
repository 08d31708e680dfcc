#include "data/stream_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "data/samplers.h"

namespace dimred::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t all = 1'000'000;

/// Positions 0, 1, 2, ... need these files.
StreamPlan::ShardAt needs(std::vector<std::size_t> files) {
  return [files = std::move(files)](std::int64_t position) {
    return files[static_cast<std::size_t>(position)];
  };
}

TEST(StreamPlan, ListsFilesInTheOrderOfTheirFirstNeedAsFarAsTheyFit) {
  StreamPlan plan({.bytes = {4, 3, 2, 1}, .room = 7});
  EXPECT_TRUE(plan.advance(0, 6, needs({2, 2, 0, 2, 3, 1}), all));
  EXPECT_THAT(plan.shards(), ElementsAre(2, 0, 3));
  StreamPlan smaller({.bytes = {4, 3, 2, 1}, .room = 6});
  smaller.advance(0, 6, needs({2, 2, 0, 1, 3, 3}), all);
  EXPECT_THAT(smaller.shards(), ElementsAre(2, 0));  // none before the one that does not fit
}

TEST(StreamPlan, LeavesRoomForTheCompressedBytesOfFilesThatCome) {
  const StreamCapacity files{.bytes = {4, 4, 4, 4}, .room = 13, .packed = 2, .fetches = 2};
  EXPECT_EQ(files.total(), 16 + 2 * 2);
  StreamPlan plan(files);
  plan.advance(0, 4, needs({3, 2, 1, 0}), all);
  EXPECT_THAT(plan.shards(), ElementsAre(3, 2));  // 8 + 4; a third one has 12 + 4
  StreamPlan larger({.bytes = {4, 4, 4, 4}, .room = 16, .packed = 2, .fetches = 2});
  larger.advance(0, 4, needs({3, 2, 1, 0}), all);
  EXPECT_THAT(larger.shards(), ElementsAre(3, 2, 1));
  StreamPlan small({.bytes = {4, 4}, .room = 6, .packed = 2, .fetches = 2});
  small.advance(0, 2, needs({0, 1}), all);
  EXPECT_THAT(small.shards(), ElementsAre(0));  // one at a time always goes
  EXPECT_EQ(bytes_at_a_time({5, 5, 5, 5}, files, 1), 8 + 4);
  EXPECT_EQ(bytes_at_a_time({5, 5, 5, 5}, StreamCapacity{.bytes = {4, 4, 4, 4}}, 1), 8);
}

TEST(StreamPlan, DropsWhatIsDoneAndGoesOn) {
  const auto order = needs({0, 1, 0, 1, 2, 2, 3, 0});
  StreamPlan plan({.bytes = {1, 1, 1, 1}, .room = 2});
  plan.advance(0, 8, order, all);
  EXPECT_THAT(plan.shards(), ElementsAre(0, 1));
  EXPECT_FALSE(plan.advance(2, 8, order, all));
  EXPECT_TRUE(plan.advance(3, 8, order, all));  // 0 is done
  EXPECT_THAT(plan.shards(), ElementsAre(1, 2));
  plan.advance(4, 8, order, all);
  EXPECT_THAT(plan.shards(), ElementsAre(2, 3));
  plan.advance(6, 8, order, all);
  EXPECT_THAT(plan.shards(), ElementsAre(3, 0));  // needed again
  plan.advance(8, 8, order, all);
  EXPECT_THAT(plan.shards(), IsEmpty());
}

TEST(StreamPlan, AFileLargerThanTheRoomIsAloneInIt) {
  StreamPlan plan({.bytes = {9, 1}, .room = 5});
  plan.advance(0, 2, needs({0, 1}), all);
  EXPECT_THAT(plan.shards(), ElementsAre(0));
}

TEST(StreamPlan, IsTheSameInSmallSteps) {
  const auto order = windowed_shuffle(std::vector<std::int64_t>(20, 10), 25);
  const auto shard_at = [&](std::int64_t position) {
    return static_cast<std::size_t>(order->at(3, position / 200, position % 200) / 10);
  };
  const StreamCapacity files{.bytes = std::vector<std::int64_t>(20, 7), .room = 60};
  StreamPlan at_once(files), in_steps(files);
  for (std::int64_t begin = 0; begin < 400; begin += 5) {
    at_once.advance(begin, 400, shard_at, all);
    while (true) {
      const auto before = in_steps.shards();
      in_steps.advance(begin, 400, shard_at, 40);
      if (in_steps.shards() == before) break;
    }
    EXPECT_EQ(in_steps.shards(), at_once.shards());
  }
}

TEST(BytesAtATime, OfEqualFilesAreThoseOfASpanAndOneAtEitherEnd) {
  const std::vector<std::int64_t> samples(100, 50), bytes(100, 7);
  EXPECT_EQ(bytes_at_a_time(samples, bytes, 1), 14);
  EXPECT_EQ(bytes_at_a_time(samples, bytes, 100), 28);
  EXPECT_EQ(bytes_at_a_time(samples, bytes, 149), 28);
  EXPECT_EQ(bytes_at_a_time(samples, bytes, 1'000'000), 700);
  EXPECT_EQ(bytes_at_a_time({50, 0, 50}, {7, 1000, 7}, 1), 14);  // an empty file is never needed
}

/// Files of any sizes: what a pass reads from a position on is in a plan with that much room, so
/// that it fetches no file twice in an epoch.
TEST(BytesAtATime, AreRoomEnoughForEveryWindow) {
  std::minstd_rand random(1);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::int64_t> samples, bytes;
    std::vector<std::size_t> file_of;
    for (std::size_t file = 0; file < 25; ++file) {
      samples.push_back(static_cast<std::int64_t>(random() % 20));
      bytes.push_back(1 + static_cast<std::int64_t>(random() % 30));
      file_of.insert(file_of.end(), static_cast<std::size_t>(samples.back()), file);
    }
    const auto size = std::ssize(file_of);
    const auto window = 1 + static_cast<std::int64_t>(random() % 40);
    const auto ahead = 1 + static_cast<std::int64_t>(random() % 30);
    const auto order = windowed_shuffle(samples, window);
    const auto shard_at = [&](std::int64_t position) {
      return file_of[static_cast<std::size_t>(order->at(7, 0, position))];
    };
    StreamPlan plan({.bytes = bytes, .room = bytes_at_a_time(samples, bytes, 2 * window + ahead)});
    std::set<std::size_t> here;
    std::multiset<std::size_t> fetched;
    for (std::int64_t begin = 0; begin < size; ++begin) {
      plan.advance(begin, size, shard_at, all);
      const std::set<std::size_t> wanted(plan.shards().begin(), plan.shards().end());
      for (auto at = begin; at < std::min(begin + ahead, size); ++at)
        EXPECT_TRUE(wanted.contains(shard_at(at))) << "window " << window << ", ahead " << ahead;
      for (const auto file : wanted)
        if (!here.contains(file)) fetched.insert(file);
      here = wanted;
    }
    for (const auto file : fetched) EXPECT_EQ(fetched.count(file), 1U);
  }
}

}  // namespace
}  // namespace dimred::data
