#include "stores/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
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

/// Of any cache: enough is freed or nothing can be done, never more than has to be, nothing fixed,
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
    std::int64_t used = 0, last = 0, may_leave = 0;
    const std::set<std::string> wishes(wanted.begin(), wanted.end());
    const std::set<std::string> leaving =
        keys ? std::set<std::string>(keys->begin(), keys->end()) : std::set<std::string>();
    for (const auto& file : files) {
      const bool may = !file.fixed && (urgent || !wishes.contains(file.key));
      EXPECT_TRUE(may || !leaving.contains(file.key));
      if (may) may_leave += file.bytes;
      used += file.bytes;
      if (keys && !keys->empty() && file.key == keys->back()) last = file.bytes;
    }
    EXPECT_EQ(keys.has_value(), used - may_leave + bytes <= room);
    if (!keys) continue;
    for (const auto& file : files)
      if (leaving.contains(file.key)) used -= file.bytes;
    EXPECT_LE(used + bytes, room);
    if (!keys->empty()) {
      EXPECT_GT(used + last + bytes, room);
    }
  }
}

}  // namespace
}  // namespace dimred::stores
