#include "stores/shard_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "tests/stores/shared_store.h"

namespace dimred::stores {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShardCache, BringsWhatIsAskedForOnce) {
  CachedShards shards(3);
  const auto cache = shards.open(100);
  for (const std::size_t shard : {2, 0, 1, 2, 0})
    EXPECT_EQ(text_of_shard(*cache, shard), shards.expected(shard));
  EXPECT_EQ(shards.objects.count(), 3);
}

TEST(ShardCache, NeverHoldsMoreThanItsRoom) {
  CachedShards shards(12);
  const auto folder = shards.folder / "shards";
  const auto cache = shards.open(45, 3);
  std::atomic<std::int64_t> most = 0;
  cache->on_arrival([&](std::size_t, const auto&) {
    const auto bytes = bytes_in(folder);
    for (auto seen = most.load(); bytes > seen && !most.compare_exchange_weak(seen, bytes);) {
    }
  });
  std::vector<std::jthread> readers;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    readers.emplace_back([&, seed] {
      std::minstd_rand random(seed);
      for (int i = 0; i < 40; ++i) {
        const std::size_t shard = random() % 12;
        if (i % 8 == 0) cache->want({{shard, 10}, {(shard + 1) % 12, 10}});
        EXPECT_EQ(text_of_shard(*cache, shard), shards.expected(shard));
      }
    });
  }
  readers.clear();
  EXPECT_GT(most, 20);
  EXPECT_LE(most, 45);
  EXPECT_GT(shards.objects.count(), 12);  // some came more than once
}

TEST(ShardCache, BringsWhatIsWantedInItsOrderBeforeAnybodyAsks) {
  CachedShards shards(5);
  const auto cache = shards.open(30, 1);
  cache->want({{3, 10}, {0, 10}, {4, 10}, {1, 10}});
  ASSERT_TRUE(becomes([&] { return shards.objects.count() == 3; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_THAT(shards.objects.reads, ElementsAre("/data/d", "/data/a", "/data/e"));  // no room for 1
  cache->want({{0, 10}, {4, 10}, {1, 10}});
  ASSERT_TRUE(becomes([&] { return shards.objects.count() == 4; }));
  for (const std::size_t shard : {0, 4, 1}) text_of_shard(*cache, shard);
  EXPECT_EQ(shards.objects.count(), 4);  // 3 has left, these have stayed
}

TEST(ShardCache, WhoWaitsTakesTheRoomOfWhatIsWantedLast) {
  CachedShards shards(4);
  const auto cache = shards.open(30, 1);
  cache->want({{0, 10}, {1, 10}, {2, 10}});
  ASSERT_TRUE(becomes([&] { return shards.objects.count() == 3; }));
  EXPECT_EQ(text_of_shard(*cache, 3), shards.expected(3));
  for (const std::size_t shard : {0, 1}) text_of_shard(*cache, shard);
  const std::lock_guard lock(shards.objects.mutex);
  EXPECT_EQ(shards.objects.reads[3], "/data/d");
  for (const auto* path : {"/data/a", "/data/b"})  // have stayed; the third may have come again
    EXPECT_EQ(std::ranges::count(shards.objects.reads, path), 1) << path;
}

TEST(ShardCache, AFailureReachesWhoWaitsAndTheNextTriesAgain) {
  CachedShards shards(2);
  const auto cache = shards.open(100);
  shards.objects.store.passing = false;
  shards.objects.store.failures = 1;
  EXPECT_THAT(error_of([&] { cache->get({0, 10}, never); }), HasSubstr("the store fails"));
  EXPECT_EQ(text_of_shard(*cache, 0), shards.expected(0));
}

TEST(ShardCache, AFailureAheadIsNobodysUntilItIsNeeded) {
  CachedShards shards(2);
  const auto cache = shards.open(100, 1);
  shards.objects.store.failures = 1;  // of a single attempt
  cache->want({{0, 10}, {1, 10}});
  ASSERT_TRUE(becomes([&] {
    const std::lock_guard lock(shards.objects.mutex);
    return shards.objects.store.failures == 0;
  }));
  EXPECT_EQ(text_of_shard(*cache, 1), shards.expected(1));
  EXPECT_EQ(text_of_shard(*cache, 0), shards.expected(0));
}

TEST(ShardCache, WhatHasChangedSinceItWasLookedAtIsRefused) {
  CachedShards shards(2);
  const auto cache = shards.open(100);
  shards.objects.store.objects["/data/b"] = "0123456789";
  EXPECT_THROW(cache->get({1, 10}, never), Changed);
  shards.objects.store.objects.erase("/data/a");
  EXPECT_NE(error_of([&] { cache->get({0, 10}, never); }), "");
}

TEST(ShardCache, AnotherVersionIsAnotherFile) {
  CachedShards shards(1);
  EXPECT_EQ(text_of_shard(*shards.open(100), 0), "aaaaaaaaa\n");
  EXPECT_EQ(text_of_shard(*shards.open(100), 0), "aaaaaaaaa\n");
  EXPECT_EQ(shards.objects.count(), 1);
  shards.objects.store.objects["/data/a"] = "bbbbbbbbb\n";
  EXPECT_EQ(text_of_shard(*shards.open(100), 0), "bbbbbbbbb\n");
  EXPECT_EQ(text_of_shard(*shards.open(10), 0), "bbbbbbbbb\n");
}

TEST(ShardCache, WhatArrivesMayBeChangedOrRefused) {
  CachedShards shards(2);
  const auto cache = shards.open(100);
  cache->on_arrival([](std::size_t shard, const auto& file) {
    if (shard == 1) throw std::runtime_error("no file of ours");
    put_file(file, "larger than it was");
  });
  EXPECT_EQ(text_of_shard(*cache, 0), "larger than it was");
  EXPECT_EQ(error_of([&] { cache->get({1, 10}, never); }), "no file of ours");
  cache->on_arrival({});
  EXPECT_EQ(text_of_shard(*cache, 1), shards.expected(1));
}

TEST(ShardCache, AWaitIsCalledOffAndTheCacheEndsInTheMidstOfAFile) {
  CachedShards shards(2);
  auto cache = shards.open(100);
  shards.objects.closed = true;
  std::atomic<bool> stop = false;
  std::jthread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(cache->get({0, 10}, [&] { return stop.load(); }), StopRequested);
  cache.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  shards.objects.closed = false;
  EXPECT_EQ(text_of_shard(*shards.open(10), 0), shards.expected(0));
}

TEST(ShardCache, OfSeveralProcessesOneFetchesAFile) {
  CachedShards shards(8);
  // Each has locks of its own, as a process of its own would have.
  const auto first = shards.open(100), second = shards.open(100);
  std::vector<std::jthread> readers;
  for (auto* cache : {first.get(), second.get()})
    readers.emplace_back([&shards, cache] {
      for (std::size_t shard = 0; shard < 8; ++shard)
        EXPECT_EQ(text_of_shard(*cache, shard), shards.expected(shard));
    });
  readers.clear();
  EXPECT_EQ(shards.objects.count(), 8);
}

TEST(ShardCache, TheRoomOfAFetchThatWasKilledIsFree) {
  CachedShards shards(2);
  text_of_shard(*shards.open(20), 0);
  const auto left = shards.folder / "shards" / "0123456789abcdef";
  std::filesystem::create_directories(left);
  put_file(left / "bytes", "20");
  put_file(left / "new.part", "begun");
  EXPECT_EQ(text_of_shard(*shards.open(20), 1), shards.expected(1));
  EXPECT_LE(bytes_in(shards.folder / "shards"), 20);
}

TEST(ShardCache, WhatIsDroppedIsFetchedAgain) {
  CachedShards shards(2);
  const auto cache = shards.open(100);
  put_file(cache->get({0, 10}, never), "damaged");
  text_of_shard(*cache, 1);
  EXPECT_EQ(text_of_shard(*cache, 0), "damaged");
  cache->drop(0);
  EXPECT_EQ(text_of_shard(*cache, 0), shards.expected(0));
  EXPECT_EQ(shards.objects.count(), 3);
  cache->drop(1);
  cache->drop(1);  // there is none any more
  cache->want({{1, 10}});
  EXPECT_TRUE(becomes([&] { return shards.objects.count() == 4; }));
}

TEST(ShardCache, RefusesWhatNeverFits) {
  CachedShards shards(1);
  const auto cache = shards.open(9);
  EXPECT_THAT(error_of([&] { cache->get({0, 10}, never); }), HasSubstr("needs room for"));
}

}  // namespace
}  // namespace dimred::stores
