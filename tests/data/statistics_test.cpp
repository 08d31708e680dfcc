#include "data/statistics.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "data/idx.h"
#include "tests/data/constructed_dataset.h"

namespace dimred::data {
namespace {

// Two channels: 0 0 255 255 over both samples (mean 1/2, deviation 1/2), and 51 everywhere (mean
// 1/5).
struct TwoChannels : PlanesDataset {
  TwoChannels() : PlanesDataset({2, 1, 2}, 2) {}
  std::int64_t size() const override { return 2; }
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const std::uint8_t first = index == 0 ? 0 : 255;
    scratch = {first, first, 51, 51};
    return sample(scratch, index);
  }
  std::string description() const override { return "two channels"; }
};

TEST(ChannelStatistics, AreExactOnASmallDataset) {
  const auto statistics = channel_statistics(TwoChannels{});
  EXPECT_EQ(statistics.mean, (std::vector<double>{0.5, 0.2}));
  EXPECT_EQ(statistics.deviation, (std::vector<double>{0.5, 0}));
}

TEST(ChannelStatistics, CrossTheNarrowAccumulatorsLimit) {
  // One image of more than 65536 pixels, all 255: 32-bit sums of squares would wrap.
  struct White : ConstructedDataset {
    using ConstructedDataset::ConstructedDataset;
    Sample read(std::int64_t /*index*/, std::vector<std::uint8_t>& scratch) const override {
      scratch.assign(static_cast<std::size_t>(image_shape.size()), 255);
      return sample(scratch, 0);
    }
  };
  const auto statistics = channel_statistics(White(3, {1, 512, 300}));
  EXPECT_EQ(statistics.mean.at(0), 1);
  EXPECT_EQ(statistics.deviation.at(0), 0);
}

TEST(ChannelStatistics, LeaveOutWhatCannotBeRead) {
  ConstructedDataset whole(9, {3, 5, 7});
  auto broken = std::make_shared<ConstructedDataset>(10, ImageShape{3, 5, 7});
  broken->broken_index = 9;
  EXPECT_EQ(channel_statistics(*broken).mean, channel_statistics(whole).mean);
  EXPECT_EQ(channel_statistics(*broken).deviation, channel_statistics(whole).deviation);
  EXPECT_THROW(channel_statistics(*subset(broken, {9})), std::runtime_error);
}

TEST(ChannelStatistics, DoNotDependOnTheOrder) {
  const auto whole = std::make_shared<ConstructedDataset>(100, ImageShape{3, 5, 7});
  std::vector<std::int64_t> reversed;
  for (std::int64_t i = 100; i-- > 0;) reversed.push_back(i);
  const auto forward = channel_statistics(*whole);
  const auto backward = channel_statistics(*subset(whole, reversed));
  EXPECT_EQ(forward.mean, backward.mean);
  EXPECT_EQ(forward.deviation, backward.deviation);
}

TEST(ChannelStatistics, GiveFashionMnistsKnownValues) {
  const auto train = open_idx(default_fashion_mnist_folder(), true);
  const auto statistics = channel_statistics(*train);
  // The four published digits: half a unit of the last.
  EXPECT_NEAR(statistics.mean.at(0), 0.2860, 0.00005);
  EXPECT_NEAR(statistics.deviation.at(0), 0.3530, 0.00005);
}

TEST(ChannelStatistics, RefuseAnEmptyDataset) {
  EXPECT_THROW(channel_statistics(ConstructedDataset(0, {1, 2, 2})), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
