#include "support/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace dimred {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Pearson's statistic of counts against equal expectation.
double chi_square(const std::vector<std::int64_t>& counts) {
  double total = 0;
  for (const auto count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const auto count : counts)
    sum += std::pow(static_cast<double>(count) - expected, 2) / expected;
  return sum;
}

// Mean + 5 standard deviations of chi-square with (cells - 1) degrees of freedom: a uniform source
// exceeds it with probability < 1e-4 (the right tail is heavier than normal). Seeds are fixed, so a
// pass stays a pass.
double chi_square_limit(std::size_t cells) {
  const double degrees = static_cast<double>(cells) - 1;
  return degrees + 5 * std::sqrt(2 * degrees);
}

// Random123's kat_vectors, lines "philox4x32 10".
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr auto ones = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DiffersInEveryPartOfItsKey) {
  const auto first =
      [](std::uint64_t seed, RandomPurpose purpose, std::uint64_t epoch, std::uint64_t index) {
        RandomStream stream(seed, purpose, epoch, index);
        return Words{stream.next(), stream.next(), stream.next(), stream.next()};
      };
  const auto order = RandomPurpose::order;
  const std::uint64_t high = std::uint64_t{1} << 40;  // only a 64-bit key sees it
  const std::set<Words> streams = {first(1, order, 0, 0),
                                   first(2, order, 0, 0),
                                   first(1 + high, order, 0, 0),
                                   first(1, order, 1, 0),
                                   first(1, order, high, 0),
                                   first(1, order, 0, 1),
                                   first(1, order, 0, high),
                                   first(1, RandomPurpose::augmentation, 0, 0)};
  EXPECT_EQ(streams.size(), 8U);
  EXPECT_EQ(first(1, order, 3, 4), first(1, order, 3, 4));
}

TEST(RandomStream, DoesNotRepeatItsBlocks) {
  RandomStream stream(7, RandomPurpose::forward);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(stream.next());
  // 1000 draws of 2^32: an expected 0.0001 equal pairs.
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(RandomStream, BelowIsUniformAndInRange) {
  for (const std::uint32_t bound : {1U, 2U, 3U, 9U, 1000U}) {
    RandomStream stream(11, RandomPurpose::augmentation, bound);
    std::vector<std::int64_t> counts(bound, 0);
    for (std::uint32_t i = 0; i < 100 * bound; ++i) ++counts.at(stream.below(bound));
    EXPECT_LE(chi_square(counts), chi_square_limit(bound)) << "bound " << bound;
  }
}

TEST(RandomStream, BelowHasNoModuloBias) {
  // With 2^32 words, floor-multiplication without rejection maps two to each even third of
  // [0, 3 * 2^30) and one to the others; a rejection makes the residues modulo 3 equal.
  constexpr std::uint32_t bound = 3U << 30;
  RandomStream stream(5, RandomPurpose::forward);
  std::vector<std::int64_t> counts(3, 0);
  for (int i = 0; i < 30000; ++i) ++counts[stream.below(bound) % 3];
  EXPECT_LE(chi_square(counts), chi_square_limit(3));
}

TEST(RandomStream, BelowRefusesZero) {
  RandomStream stream(1, RandomPurpose::order);
  EXPECT_THROW(stream.below(0), std::invalid_argument);
}

TEST(Permuted, IsABijectionOfEverySize) {
  std::vector<std::uint64_t> sizes = {999, 1000, 1023, 1024, 1025, 4097, 60000};
  for (std::uint64_t size = 1; size <= 40; ++size) sizes.push_back(size);
  for (std::uint64_t size = 254; size <= 258; ++size) sizes.push_back(size);
  for (const auto size : sizes) {
    std::vector<bool> hit(size, false);
    for (std::uint64_t position = 0; position < size; ++position) {
      const auto image = permuted(position, size, 42, RandomPurpose::order, 3);
      ASSERT_LT(image, size);
      ASSERT_FALSE(hit[image]) << "size " << size << ", position " << position;
      hit[image] = true;
    }
  }
}

TEST(Permuted, DependsOnSeedPurposeAndEpoch) {
  const auto images = [](std::uint64_t seed, RandomPurpose purpose, std::uint64_t epoch) {
    std::vector<std::uint64_t> result(50);
    for (std::uint64_t i = 0; i < 50; ++i) result[i] = permuted(i, 50, seed, purpose, epoch);
    return result;
  };
  const std::set<std::vector<std::uint64_t>> distinct = {images(1, RandomPurpose::order, 0),
                                                         images(2, RandomPurpose::order, 0),
                                                         images(1, RandomPurpose::split, 0),
                                                         images(1, RandomPurpose::order, 1)};
  EXPECT_EQ(distinct.size(), 4U);
}

TEST(Permuted, PutsSampleZeroEverywhereEquallyOften) {
  for (const std::uint64_t size : {2, 3, 10, 1000}) {
    std::vector<std::int64_t> counts(size, 0);
    for (std::uint64_t epoch = 0; epoch < 50 * size; ++epoch) {
      ++counts[permuted(0, size, 9, RandomPurpose::order, epoch)];
    }
    EXPECT_LE(chi_square(counts), chi_square_limit(size)) << "size " << size;
  }
}

TEST(Permuted, ReachesAllOrdersOfFourAboutEquallyOften) {
  std::map<std::vector<std::uint64_t>, std::int64_t> seen;
  for (std::uint64_t epoch = 0; epoch < 12000; ++epoch) {
    std::vector<std::uint64_t> order(4);
    for (std::uint64_t i = 0; i < 4; ++i) order[i] = permuted(i, 4, 1, RandomPurpose::order, epoch);
    ++seen[order];
  }
  ASSERT_EQ(seen.size(), 24U);
  std::vector<std::int64_t> counts;
  counts.reserve(seen.size());
  for (const auto& [order, count] : seen) counts.push_back(count);
  // Six rounds over 2 bits are uneven by at most 6.3 %, which adds < 12000 * 0.063^2 = 48 on
  // average.
  EXPECT_LE(chi_square(counts), chi_square_limit(24) + 48);
}

TEST(Permuted, KeepsNoNeighboursTogether) {
  // In a uniform permutation image(i + 1) = image(i) + 1 holds for about one i in all; 12 or more
  // has probability < 1e-8 (Poisson of mean 1).
  constexpr std::uint64_t size = 60000;
  int followers = 0;
  auto last = permuted(0, size, 17, RandomPurpose::order, 0);
  for (std::uint64_t i = 1; i < size; ++i) {
    const auto image = permuted(i, size, 17, RandomPurpose::order, 0);
    followers += image == last + 1 ? 1 : 0;
    last = image;
  }
  EXPECT_LT(followers, 12);
}

TEST(Permuted, WorksBeyond32Bits) {
  constexpr std::uint64_t size = (std::uint64_t{1} << 40) + 5;
  std::set<std::uint64_t> images;
  bool large = false;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto image = permuted(i, size, 1, RandomPurpose::order, 0);
    ASSERT_LT(image, size);
    large = large || image > (std::uint64_t{1} << 36);
    images.insert(image);
  }
  EXPECT_EQ(images.size(), 1000U);
  EXPECT_TRUE(large);
}

TEST(Permuted, RefusesAPositionOutside) {
  EXPECT_THROW(permuted(3, 3, 1, RandomPurpose::order, 0), std::invalid_argument);
  EXPECT_THROW(permuted(0, 0, 1, RandomPurpose::order, 0), std::invalid_argument);
}

}  // namespace
}  // namespace dimred
