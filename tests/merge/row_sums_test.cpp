#include "merge/row_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "pca/memory_source.h"
#include "support/formatted.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::merge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t rows = 10, columns = 70'000;  // more than one block

std::vector<std::vector<float>> random_rows() {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> all(rows, std::vector<float>(columns));
  for (auto& row : all)
    for (auto& value : row) value = normal(generator);
  for (auto& row : all) row[0] = -0.0F;
  return all;
}

template <class Value>
std::unique_ptr<pca::SnapshotSource> source_of(const std::vector<std::vector<Value>>& all) {
  std::vector<pca::MemoryRow> memory;
  for (const auto& values : all) {
    auto& row = memory.emplace_back();
    row.name = formatted("row {}", memory.size());
    row.tensors.push_back({"",
                           {std::ssize(values)},
                           sizeof(Value) == sizeof(float) ? "F32" : "F64",
                           reinterpret_cast<const std::byte*>(values.data()),
                           1});
  }
  return pca::memory_source(std::move(memory));
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// The mean that starts stage 2: the float64 sum of the rows in order, from +0 on, then one
// division.
TEST(RowMean, IsTheSumDividedOnce) {
  const auto all = random_rows();
  RowMean mean;
  for (const auto& row : all) mean.add(row);
  std::vector<float> expected(columns);
  for (std::size_t i = 0; i < columns; ++i) {
    double sum = 0;
    for (const auto& row : all) sum += row[i];
    expected[i] = static_cast<float>(sum / rows);
  }
  EXPECT_EQ(bits_of(mean.values()), bits_of(expected));
  EXPECT_EQ(mean.count(), 10);
}

TEST(CombinedRows, AreTheWeightedSumOfThoseTaken) {
  const auto all = random_rows();
  const auto source = source_of(all);
  const std::vector<std::int64_t> taken{1, 4, 7};
  std::vector<float> expected(columns);
  for (std::size_t i = 0; i < columns; ++i)
    expected[i] = static_cast<float>((1. * all[1][i] + -3. * all[7][i]) / 7);
  for (const std::int64_t threads : {1, 3}) {
    std::vector<float> out(columns);
    combine_rows<float>(*source, taken, {{1, 0, -3}, 7}, out, threads);
    EXPECT_EQ(bits_of(out), bits_of(expected));
  }
}

TEST(CombinedRows, HaveDigestsThatTellEqualRows) {
  auto all = random_rows();
  all[4] = all[1];
  all[7] = all[1];
  all[7].back() += 1;
  std::vector<float> out(columns);
  const std::vector<std::int64_t> taken{1, 2, 4, 7};
  for (const std::int64_t threads : {1, 3}) {
    const auto digests =
        combine_rows<float>(*source_of(all), taken, {{1, 0, 1, 1}, 3}, out, threads);
    ASSERT_EQ(digests.size(), 4U);
    EXPECT_EQ(digests[0], digests[2]);
    EXPECT_NE(digests[0], digests[3]);
    EXPECT_EQ(digests[1], "");  // of weight 0, which is not read
    EXPECT_EQ(digests[0].size(), 32U);
  }
}

/// Two rows of float64 together.
std::vector<double> combined(const std::vector<std::vector<double>>& all,
                             const Coefficients& coefficients) {
  std::vector<double> out(all.front().size());
  combine_rows<double>(*source_of(all), std::vector<std::int64_t>{0, 1}, coefficients, out, 1);
  return out;
}

TEST(CombinedRows, OfFloat64AreNotRoundedToFloat32) {
  EXPECT_THAT(combined({{1, 1e300}, {1 + 0x1p-40, 1e300}}, {{1, 1}, 2}),
              ElementsAre(1 + 0x1p-41, 1e300));
}

TEST(CombinedRows, MeanNearTheEndOfFloat64IsFinite) {
  const std::vector<std::vector<double>> all{{1.5e308, 3}, {1.7e308, 4}};
  EXPECT_THAT(combined(all, {{1, 1}, 2}), ElementsAre(1.6e308, 3.5));
  EXPECT_THAT(thrown<std::invalid_argument>([&] {
                combined(all, {{1, 1}, 1});
              }),
              HasSubstr("the sum at column 0 is beyond the range of F64"));
}

// An element whose sum overflows leaves its neighbours as they are, subnormal ones too.
TEST(CombinedRows, KeepSmallValuesBesideOnesNearTheEndOfFloat64) {
  EXPECT_THAT(combined({{1.7e308, 1e-320}, {1.7e308, 3e-320}}, {{1, 1}, 2}),
              ElementsAre(1.7e308, 2e-320));
  EXPECT_THAT(combined({{2.447e-308, 1.7e308}, {2.893e-308, 1.7e308}}, {{1, 1}, 2}),
              ElementsAre((2.447e-308 + 2.893e-308) / 2, 1.7e308));
  EXPECT_THAT(combined({{1e-320, 1.5e308, 4e-324}, {1e-320, 1.5e308, 4e-324}}, {{2, -1}}),
              ElementsAre(1e-320, 1.5e308, 4e-324));
  // Three elements overflow, and stay apart from those between them.
  EXPECT_THAT(
      combined({{1.7e308, 1e-320, -1.7e308, 5, 1e308}, {1.7e308, 1e-320, -1.7e308, 7, 1e308}},
               {{1, 1}, 2}),
      ElementsAre(1.7e308, 1e-320, -1.7e308, 6, 1e308));
}

TEST(CombinedRows, NeedFiniteValues) {
  auto all = random_rows();
  const std::vector<std::int64_t> taken{0, 1};
  std::vector<float> out(columns);
  const auto refusal = [&](double weight) {
    const auto source = source_of(all);
    return thrown<std::invalid_argument>([&] {
      combine_rows<float>(*source, taken, {{1, weight}}, out, 2);
    });
  };
  EXPECT_THAT(refusal(1e39), HasSubstr("is beyond the range of F32"));
  all[1][69'999] = NAN;
  EXPECT_THAT(refusal(1), HasSubstr("row 2 has a value that is not finite, at column 69999"));
}

}  // namespace
}  // namespace dimred::merge
