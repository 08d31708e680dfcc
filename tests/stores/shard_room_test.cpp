#include "stores/shard_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace dimred::stores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<CachedFile> three = {{"a", 10, 3}, {"b", 10, 1}, {"c", 10, 2}};

TEST(Evictions, TakeTheOldestThatNobodyWantsAndNoMoreThanNeeded) {
  EXPECT_THAT(*evictions(three, 10, 40, {}, false), IsEmpty());
  EXPECT_THAT(*evictions(three, 10, 39, {}, false), ElementsAre("b"));
  EXPECT_THAT(*evictions(three, 20, 30, {}, false), ElementsAre("b", "c"));
  EXPECT_THAT(*evictions(three, 10, 30, {"b"}, false), ElementsAre("c"));
}

TEST(Evictions, LeaveWhatIsWantedUnlessSomebodyWaits) {
  EXPECT_EQ(evictions(three, 20, 30, {"b", "c"}, false), std::nullopt);
  EXPECT_THAT(*evictions(three, 20, 30, {"b", "c"}, true), ElementsAre("a", "c"));
  EXPECT_THAT(*evictions(three, 30, 30, {"c", "b"}, true), ElementsAre("a", "b", "c"));
}

TEST(Evictions, LeaveWhatIsBeingFetched) {
  const std::vector<CachedFile> files = {{"a", 10, 1, true}, {"b", 10, 2}};
  EXPECT_THAT(*evictions(files, 10, 20, {}, true), ElementsAre("b"));
  EXPECT_EQ(evictions(files, 11, 20, {}, true), std::nullopt);
}

/// For any cache: enough is freed or nothing can be done, never more than has to be, nothing fixed,
/// and wanted files only when it is urgent and all others have gone.
TEST(Evictions, AreEnoughAndNoMoreForAnyCache) {
  std::minstd_rand random(1);
  const auto below = [&](int end) { return static_cast<std::int64_t>(random() % end); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<CachedFile> files;
    std::vector<std::string> wanted;
    for (char name = 'a'; name < 'i'; ++name) {
      files.push_back({std::string(1, name), 1 + below(9), below(5), below(4) == 0});
      if (below(2) == 0) wanted.emplace_back(1, name);
    }
    const auto bytes = below(20);
    const auto room = 20 + below(20);
    const bool urgent = below(2) == 0;
    const auto keys = evictions(files, bytes, room, wanted, urgent);
    const std::set<std::string> wishes(wanted.begin(), wanted.end());
    const auto may_leave = [&](const CachedFile& file) {
      return !file.fixed && (urgent || !wishes.contains(file.key));
    };
    const auto leaves = [&](const CachedFile& file) {
      return keys && std::ranges::count(*keys, file.key) > 0;
    };
    const auto total = [&](const auto& counts) {
      std::int64_t sum = 0;
      for (const auto& file : files) sum += counts(file) ? file.bytes : 0;
      return sum;
    };
    const auto used = total([](const CachedFile&) { return true; });
    EXPECT_EQ(keys.has_value(), used - total(may_leave) + bytes <= room);
    EXPECT_EQ(total(leaves),
              total([&](const auto& file) { return leaves(file) && may_leave(file); }));
    if (!keys) continue;
    const auto left = used - total(leaves);
    EXPECT_LE(left + bytes, room);
    if (keys->empty()) continue;
    const auto last = total([&](const CachedFile& file) { return file.key == keys->back(); });
    EXPECT_GT(left + last + bytes, room);
  }
}

}  // namespace
}  // namespace dimred::stores
