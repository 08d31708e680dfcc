#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/order.h"
#include "tests/data/constructed_dataset.h"

namespace dimred::data {
namespace {

TEST(Subset, KnowsHowManySamplesOfEachFileItHas) {
  struct Files : ConstructedDataset {
    using ConstructedDataset::ConstructedDataset;
    std::vector<std::int64_t> shard_sizes() const override { return {3, 0, 5, 2}; }
  };
  const auto whole = std::make_shared<Files>(10, ImageShape{1, 2, 2});
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(subset(whole, {0, 2, 3, 7, 8, 9})->shard_sizes(), (Sizes{2, 0, 2, 2}));
  EXPECT_EQ(subset(whole, {3, 7})->shard_sizes(), (Sizes{0, 0, 2, 0}));
  EXPECT_EQ(subset(whole, {7, 3})->shard_sizes(), Sizes{2});  // not file after file
}

TEST(Subset, ReadsTheWholesSamples) {
  const auto whole = std::make_shared<ConstructedDataset>(10, ImageShape{2, 2, 2});
  const auto part = subset(whole, {7, 0, 7});
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(part->classes(), 7);
  EXPECT_EQ(part->shape(), (ImageShape{2, 2, 2}));
  std::vector<std::uint8_t> scratch, whole_scratch;
  for (const auto& [index, in_whole] : {std::pair{0, 7}, {1, 0}, {2, 7}}) {
    const auto sample = part->read(index, scratch);
    const auto expected = whole->read(in_whole, whole_scratch);
    EXPECT_EQ(sample.label, expected.label);
    EXPECT_TRUE(std::equal(
        sample.bytes.begin(), sample.bytes.end(), expected.bytes.begin(), expected.bytes.end()));
  }
}

TEST(Subset, RefusesIndicesOutside) {
  const auto whole = std::make_shared<ConstructedDataset>(10, ImageShape{1, 1, 1});
  EXPECT_THROW(subset(whole, {0, 10}), std::invalid_argument);
  EXPECT_THROW(subset(whole, {-1}), std::invalid_argument);
  std::vector<std::uint8_t> scratch;
  EXPECT_THROW(subset(whole, {1, 2})->read(2, scratch), std::invalid_argument);
  EXPECT_THROW(subset(whole, {})->read(0, scratch), std::invalid_argument);
}

TEST(Subset, DescriptionTellsSubsetsApart) {
  const auto whole = std::make_shared<ConstructedDataset>(10, ImageShape{1, 1, 1});
  const auto text = subset(whole, {1, 2})->description();
  EXPECT_NE(text.find("constructed"), std::string::npos);
  EXPECT_NE(text, subset(whole, {1, 3})->description());
  EXPECT_EQ(text, subset(whole, {1, 2})->description());
}

TEST(SplitIndices, PartsAreAscendingDisjointAndComplete) {
  // 0.29 * 100 is 28.999999999999996 in binary and means 29.
  const std::vector<std::pair<double, std::size_t>> cases = {
      {0, 0}, {0.1, 10}, {0.29, 29}, {0.5, 50}, {0.995, 99}};
  for (const auto& [fraction, held_out] : cases) {
    const auto split = split_indices(100, fraction, 5);
    EXPECT_EQ(split.held_out.size(), held_out);
    EXPECT_TRUE(std::is_sorted(split.kept.begin(), split.kept.end()));
    EXPECT_TRUE(std::is_sorted(split.held_out.begin(), split.held_out.end()));
    std::vector<std::int64_t> all;
    std::merge(split.kept.begin(),
               split.kept.end(),
               split.held_out.begin(),
               split.held_out.end(),
               std::back_inserter(all));
    std::vector<std::int64_t> expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(SplitIndices, DependsOnTheSeedAlone) {
  EXPECT_EQ(split_indices(1000, 0.1, 5).held_out, split_indices(1000, 0.1, 5).held_out);
  EXPECT_NE(split_indices(1000, 0.1, 5).held_out, split_indices(1000, 0.1, 6).held_out);
}

TEST(SplitIndices, AlwaysKeepsOne) {
  EXPECT_EQ(split_indices(1, 0.99, 1).kept.size(), 1U);
  EXPECT_EQ(split_indices(10, 1 - 1e-12, 1).kept.size(), 1U);
}

TEST(SplitIndices, RefusesFractionsOutside) {
  EXPECT_THROW(split_indices(10, -0.1, 1), std::invalid_argument);
  EXPECT_THROW(split_indices(10, 1, 1), std::invalid_argument);
  EXPECT_THROW(split_indices(10, std::nan(""), 1), std::invalid_argument);
  EXPECT_THROW(split_indices(0, 0.1, 1), std::invalid_argument);
}

TEST(Order, EveryEpochIsAnotherPermutation) {
  const Order order{.seed = 3, .size = 257};
  std::set<std::vector<std::int64_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<std::int64_t> indices;
    for (std::int64_t position = 0; position < 257; ++position)
      indices.push_back(order.at(epoch, position));
    epochs.insert(indices);
    std::sort(indices.begin(), indices.end());
    for (std::int64_t i = 0; i < 257; ++i) ASSERT_EQ(indices[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(epochs.size(), 5U);
}

TEST(Order, UnshuffledIsThePosition) {
  const Order order{.seed = 3, .size = 257, .shuffled = false};
  for (std::int64_t position = 0; position < 257; ++position)
    EXPECT_EQ(order.at(2, position), position);
}

TEST(Order, RefusesPositionsOutside) {
  for (const bool shuffled : {false, true}) {
    const Order order{.seed = 3, .size = 5, .shuffled = shuffled};
    EXPECT_THROW(order.at(0, 5), std::invalid_argument);
    EXPECT_THROW(order.at(0, -1), std::invalid_argument);
    EXPECT_THROW(order.at(-1, 0), std::invalid_argument);
  }
}

}  // namespace
}  // namespace dimred::data
