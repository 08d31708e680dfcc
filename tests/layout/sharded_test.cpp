#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "layout/shard.h"

namespace dimred::layout {
namespace {

/// conv and dense of every rank, and rows [first, first + count) of head's eleven.
std::vector<Parameter> parameters(std::int64_t first, std::int64_t count) {
  return {{"conv.weight", {3, 5, 2, 3}, MemoryFormat::channels_last},
          {"dense.weight", {10, 17}},
          {.name = "head.weight",
           .shape = {count, 7},
           .placement = Placement::sharded,
           .global_rows = 11,
           .first_row = first}};
}

const Layout test_whole = make_layout(
    {{"conv.weight", {3, 5, 2, 3}}, {"dense.weight", {10, 17}}, {"head.weight", {11, 7}}});

TEST(ShardedLayout, SaysToFilesWhatTheWholeSays) {
  for (const auto& [first, count] : {std::pair{0, 4}, {4, 4}, {8, 3}, {11, 0}, {0, 11}}) {
    const Layout layout = make_layout(parameters(first, count));
    EXPECT_EQ(layout.hash, test_whole.hash);
    EXPECT_EQ(to_json(layout), to_json(test_whole));
    EXPECT_EQ(first_difference(layout, to_json(test_whole)), "");
    EXPECT_EQ(layout.global_size, test_whole.file_size);
    EXPECT_EQ(layout.file_size, 90 + 170 + count * 7);
    EXPECT_EQ(layout.replicated_size, 96 + 176);
    EXPECT_TRUE(layout.sharded());
  }
  EXPECT_FALSE(test_whole.sharded());
  EXPECT_EQ(test_whole.global_size, test_whole.file_size);
  EXPECT_EQ(test_whole.replicated_size, test_whole.memory_size);
}

TEST(ShardedLayout, NamesTheWholeShapeThatDiffers) {
  const Layout other = make_layout(
      {{"conv.weight", {3, 5, 2, 3}}, {"dense.weight", {10, 17}}, {"head.weight", {12, 7}}});
  EXPECT_EQ(first_difference(make_layout(parameters(4, 4)), to_json(other)),
            "parameter 2: expected head.weight [11,7], received head.weight [12,7]");
}

TEST(ShardedLayout, TheRanksPartsAreTheWholeAgain) {
  std::vector<float> whole(static_cast<std::size_t>(test_whole.file_size));
  std::iota(whole.begin(), whole.end(), 1.0F);
  std::vector<float> rows;
  for (const auto& [first, count] : {std::pair{0, 4}, {4, 4}, {8, 3}, {11, 0}}) {
    const auto own = own_part(make_layout(parameters(first, count)), whole);
    EXPECT_TRUE(std::equal(own.begin(), own.begin() + 260, whole.begin()));
    rows.insert(rows.end(), own.begin() + 260, own.end());
  }
  EXPECT_EQ(rows, std::vector<float>(whole.begin() + 260, whole.end()));
  EXPECT_THROW(own_part(make_layout(parameters(0, 4)), std::vector<float>(288)),
               std::invalid_argument);
}

TEST(ShardedLayout, ARanksPartIsAsFewRangesAsCanBe) {
  EXPECT_EQ(own_ranges(test_whole), (std::vector<ColumnRange>{{0, 337}}));
  EXPECT_EQ(own_ranges(make_layout(parameters(0, 4))), (std::vector<ColumnRange>{{0, 288}}));
  EXPECT_EQ(own_ranges(make_layout(parameters(4, 4))),
            (std::vector<ColumnRange>{{0, 260}, {288, 316}}));
}

TEST(ShardedLayout, EveryElementOfFilesIsOneRanks) {
  std::vector<int> owners(static_cast<std::size_t>(test_whole.file_size));
  constexpr int ranks = 3;
  for (int rank = 0; rank < ranks; ++rank) {
    const Layout layout = make_layout(parameters(rank * 4, rank < 2 ? 4 : 3));
    const auto shard = with_sharded(layout, shard_of(layout, rank, ranks));
    std::int64_t elements = 0;
    for (const Piece& piece : pieces_of(layout, shard)) {
      elements += piece.size;
      for (std::int64_t i = 0; i < piece.size; ++i)
        ++owners.at(static_cast<std::size_t>(piece.file_begin + i));
    }
    EXPECT_LE(elements, shard.memory_columns());
  }
  EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
}

TEST(ShardedLayout, RefusesRowsThatAreNotThereAndReplicatedParametersBehind) {
  EXPECT_THROW(make_layout(parameters(8, 4)), std::invalid_argument);
  EXPECT_THROW(make_layout(parameters(-1, 4)), std::invalid_argument);
  auto behind = parameters(0, 4);
  behind.push_back({"bias", {3}});
  EXPECT_THROW(make_layout(behind), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::layout
