#include "data/label_noise.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/data/constructed_dataset.h"

namespace dimred::data {
namespace {

constexpr std::int64_t size = 7000;  // of 7 classes, label = index mod 7

std::shared_ptr<const Dataset> noisy(double fraction, std::uint64_t seed) {
  return with_label_noise(
      std::make_shared<ConstructedDataset>(size, ImageShape{1, 1, 2}), fraction, seed);
}

std::vector<std::int64_t> labels(const Dataset& dataset) {
  std::vector<std::int64_t> result;
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    result.push_back(dataset.read(i, scratch).label);
  return result;
}

std::int64_t wrong(const std::vector<std::int64_t>& labels) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i) count += labels[i] != i % 7 ? 1 : 0;
  return count;
}

TEST(LabelNoise, ItsFractionIsExactlyTheShareOfWrongLabels) {
  EXPECT_EQ(wrong(labels(*noisy(0, 1))), 0);
  EXPECT_EQ(wrong(labels(*noisy(1e-4, 1))), 1);  // 0.7, to nearest
  EXPECT_EQ(wrong(labels(*noisy(0.2, 1))), 1400);
  EXPECT_EQ(wrong(labels(*noisy(0.29, 1))), 2030);
  EXPECT_EQ(wrong(labels(*noisy(1, 1))), size);
}

/// chi2 over the 7 x 6 pairs (true class, other class): 7 * 5 degrees of freedom with the rows'
/// sums fixed by the construction at fraction 1. 66.6 is the quantile at 0.001; the seed is fixed.
TEST(LabelNoise, EveryOtherClassIsEquallyLikely) {
  const auto drawn = labels(*noisy(1, 3));
  std::array<std::array<int, 7>, 7> counts{};
  for (std::int64_t i = 0; i < size; ++i) ++counts[i % 7][drawn[i]];
  const double expected = 1000.0 / 6;
  double chi2 = 0;
  for (int from = 0; from < 7; ++from) {
    EXPECT_EQ(counts[from][from], 0);
    for (int to = 0; to < 7; ++to) {
      const double difference = counts[from][to] - expected;
      if (to != from) chi2 += difference * difference / expected;
    }
  }
  EXPECT_LT(chi2, 66.6);
}

/// Replaced samples over the classes: hypergeometric, deviation of each count
/// sqrt(1000 * 0.3 * 0.7 * 6/7) = 13.4; 4.5 of them bound all 7 with probability 0.99995.
TEST(LabelNoise, SamplesOfEveryClassAreReplacedAlike) {
  const auto drawn = labels(*noisy(0.3, 5));
  std::array<int, 7> counts{};
  for (std::int64_t i = 0; i < size; ++i) counts[i % 7] += drawn[i] != i % 7 ? 1 : 0;
  for (const int count : counts) EXPECT_NEAR(count, 300, 60);
}

TEST(LabelNoise, IsAFunctionOfSeedAndIndexAlone) {
  const auto expected = labels(*noisy(0.3, 2));
  EXPECT_EQ(labels(*noisy(0.3, 2)), expected);
  EXPECT_NE(labels(*noisy(0.3, 4)), expected);
  // Backwards, and by four threads at once.
  const auto dataset = noisy(0.3, 2);
  std::vector<std::int64_t> read(size);
  {
    std::vector<std::jthread> threads;
    for (std::int64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        std::vector<std::uint8_t> scratch;
        for (std::int64_t i = size - 4 + first; i >= 0; i -= 4)
          read[i] = dataset->read(i, scratch).label;
      });
    }
  }
  EXPECT_EQ(read, expected);
}

TEST(LabelNoise, MoreOfItKeepsWhatLessReplaced) {
  const auto few = labels(*noisy(0.1, 8)), many = labels(*noisy(0.4, 8));
  for (std::int64_t i = 0; i < size; ++i) {
    if (few[i] == i % 7) continue;
    EXPECT_EQ(many[i], few[i]);
  }
}

TEST(LabelNoise, LeavesTheImagesAndSaysWhatItIs) {
  const auto dataset = noisy(1, 1);
  std::vector<std::uint8_t> scratch;
  EXPECT_EQ(dataset->read(41, scratch).bytes[1], ConstructedDataset::pixel(41, 1));
  EXPECT_EQ(dataset->shape(), (ImageShape{1, 1, 2}));
  EXPECT_EQ(dataset->description(), "label noise on 7000 of 7000 samples, seed 1, of constructed");
}

TEST(LabelNoise, RefusesWhatIsNoNoise) {
  for (const double fraction : {-0.1, 1.1, 1e-5})
    EXPECT_THROW(noisy(fraction, 1), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
