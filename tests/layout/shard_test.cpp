#include "layout/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

namespace dimred::layout {
namespace {

const std::vector<Parameter> network_parameters{
    {"conv1.weight", {16, 3, 3, 3}, MemoryFormat::channels_last},
    {"conv1.bias", {16}},
    {"empty", {0, 2, 1, 1}, MemoryFormat::channels_last},
    {"conv2.weight", {8, 16, 3, 3}, MemoryFormat::contiguous},
    {"conv3.weight", {5, 8, 3, 2}, MemoryFormat::channels_last},
    {"dense.weight", {10, 77}},
    {"dense.bias", {10}},
    {"pointwise.weight", {7, 3, 1, 1}, MemoryFormat::channels_last},  // 21 elements, 11 of padding
    {"last.bias", {3}},
};
constexpr std::int64_t largest_unit = 16 * 3 * 3;  // a channel of conv2

TEST(Shard, CoversEveryElementOnceForAnyNumberOfRanks) {
  const Layout layout = make_layout(network_parameters);
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::vector<int> memory_owners(static_cast<std::size_t>(layout.memory_size));
    std::vector<int> file_owners(static_cast<std::size_t>(layout.file_size));
    for (int rank = 0; rank < ranks; ++rank) {
      const Shard shard = shard_of(layout, rank, ranks);
      for (const ColumnRange& range : shard.memory) {
        for (std::int64_t i = range.begin; i < range.end; ++i) ++memory_owners.at(i);
      }
      for (const Piece& piece : pieces_of(layout, shard)) {
        for (std::int64_t i = 0; i < piece.size; ++i) ++file_owners.at(piece.file_begin + i);
      }
    }
    EXPECT_EQ(memory_owners, std::vector<int>(memory_owners.size(), 1)) << ranks;
    EXPECT_EQ(file_owners, std::vector<int>(file_owners.size(), 1)) << ranks;
  }
}

TEST(Shard, IsBalancedToWithinTheLargestUnit) {
  const Layout layout = make_layout(network_parameters);
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const double ideal = static_cast<double>(layout.memory_size) / ranks;
      const auto columns = static_cast<double>(shard_of(layout, rank, ranks).memory_columns());
      // + 15: a share may also carry its last segment's padding.
      EXPECT_LE(std::abs(columns - ideal), largest_unit + 15) << rank << " of " << ranks;
    }
  }
}

// Piece by piece, the same elements lie in both orders: moving each piece alone moves everything.
TEST(Shard, PiecesHoldTheSameElementsInFileAndMemory) {
  const Layout layout = make_layout(network_parameters);
  std::vector<float> file(static_cast<std::size_t>(layout.file_size));
  std::iota(file.begin(), file.end(), 1.0F);
  std::vector<float> memory(static_cast<std::size_t>(layout.memory_size));
  file_to_memory(layout, file, memory);
  for (int ranks : {2, 3, 7, 40}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Piece& piece : pieces_of(layout, shard_of(layout, rank, ranks))) {
        std::vector<float> ours(file.begin() + piece.file_begin,
                                file.begin() + piece.file_begin + piece.size);
        std::vector<float> theirs(memory.begin() + piece.memory_begin,
                                  memory.begin() + piece.memory_begin + piece.size);
        std::ranges::sort(theirs);  // a channel keeps its elements, not their order
        EXPECT_EQ(ours, theirs) << layout.entries[piece.entry].name << ", " << ranks << " ranks";
      }
    }
  }
}

TEST(Shard, CutsFourDimensionalEntriesOnOutputChannelsAndOthersOnCacheLines) {
  const Layout layout = make_layout(network_parameters);
  int cuts_inside = 0;
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Piece& piece : pieces_of(layout, shard_of(layout, rank, ranks))) {
        const Entry& entry = layout.entries[piece.entry];
        const std::int64_t unit = entry.shape.size() == 4 ? entry.size / entry.shape[0] : 16;
        const std::int64_t begin = piece.memory_begin - entry.memory_offset;
        EXPECT_EQ(begin % unit, 0) << entry.name;
        cuts_inside += begin > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(cuts_inside, 100);
}

TEST(Shard, NeverCutsPaddingOffItsSegment) {
  const Layout layout = make_layout(network_parameters);
  for (int ranks = 1; ranks <= 400; ++ranks) {  // up to a share of about 8 columns
    for (int rank = 0; rank < ranks; ++rank) {
      for (const ColumnRange& range : shard_of(layout, rank, ranks).memory) {
        const bool in_a_segment = std::ranges::any_of(layout.entries, [&](const Entry& entry) {
          return range.begin >= entry.memory_offset &&
                 range.begin < entry.memory_offset + entry.size;
        });
        EXPECT_TRUE(in_a_segment) << rank << " of " << ranks << " begins at " << range.begin;
      }
    }
  }
}

TEST(Shard, LeavesRanksEmptyWhenThereAreMoreThanUnits) {
  const Layout layout = make_layout({{"bias", {40}}});  // units of 16: three
  std::int64_t columns = 0;
  int owners = 0;
  for (int rank = 0; rank < 9; ++rank) {
    const Shard shard = shard_of(layout, rank, 9);
    columns += shard.memory_columns();
    owners += shard.memory.empty() ? 0 : 1;
    EXPECT_EQ(shard.memory.empty(), pieces_of(layout, shard).empty());
  }
  EXPECT_EQ(columns, 48);
  EXPECT_EQ(owners, 3);
}

TEST(Shard, DoesNotOverflowForHugeLayouts) {
  const std::int64_t rows = std::int64_t{1} << 40;
  const Layout layout = make_layout({{"huge", {rows, 1 << 16}}});
  const Shard last = shard_of(layout, 4095, 4096);
  EXPECT_EQ(last.memory, (std::vector<ColumnRange>{{rows * 16 * 4095, rows * 16 * 4096}}));
}

TEST(Shard, RefusesBadRanksAndCutsInsideAChannel) {
  const Layout layout = make_layout(network_parameters);
  EXPECT_THROW(shard_of(layout, 0, 0), std::invalid_argument);
  EXPECT_THROW(shard_of(layout, -1, 2), std::invalid_argument);
  EXPECT_THROW(shard_of(layout, 2, 2), std::invalid_argument);
  EXPECT_THROW(pieces_of(layout, {{{0, 28}}}), std::invalid_argument);  // a channel is 27
}

}  // namespace
}  // namespace dimred::layout
