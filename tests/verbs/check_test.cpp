#include "checkpoints/verbs/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "checkpoints/float_formats.h"
#include "checkpoints/safetensors.h"
#include "support/formatted.h"
#include "tests/merge/checkpoints.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::verbs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float infinite = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

/// The counts by comparisons of numbers, one after the other.
ValueCounts counts_by_hand(const std::vector<double>& values) {
  ValueCounts counts{.elements = std::ssize(values)};
  for (std::int64_t i = 0; i < counts.elements; ++i) {
    const double value = values[i];
    counts.nan += std::isnan(value);
    counts.infinite += std::isinf(value);
    counts.negative_infinite += std::isinf(value) && value < 0;
    counts.zero += value == 0;
    if (!std::isfinite(value) && !counts.first_bad) counts.first_bad = i;
    counts.constant =
        counts.constant && (value == values[0] || (std::isnan(value) && std::isnan(values[0])));
  }
  return counts;
}

void expect_counts(const ValueCounts& received, const ValueCounts& expected) {
  EXPECT_EQ(received.elements, expected.elements);
  EXPECT_EQ(received.nan, expected.nan);
  EXPECT_EQ(received.infinite, expected.infinite);
  EXPECT_EQ(received.negative_infinite, expected.negative_infinite);
  EXPECT_EQ(received.zero, expected.zero);
  EXPECT_EQ(received.constant, expected.constant);
  EXPECT_EQ(received.first_bad, expected.first_bad);
}

// More than two runs of the kernel, so that 16-bit counts would overflow.
TEST(CountValues, AreThoseOfComparisonsInEveryFloatType) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<int> kind(0, 9);
  std::vector<float> values(70'000);
  for (auto& value : values) {
    const float some[]{
        not_a_number, infinite, -infinite, 0.0F, -0.0F, 65504.0F, 6e-8F, -1.5F, 2.0F, 0.5F};
    value = some[kind(engine)];
  }
  values[0] = 1;
  const std::vector<double> wide(values.begin(), values.end());
  std::vector<std::uint16_t> half, bfloat;
  for (const float value : values) {
    half.push_back(checkpoints::to_half(value));
    bfloat.push_back(checkpoints::to_bfloat(value));
  }
  const auto expected = counts_by_hand(wide);
  expect_counts(count_values("F32", values), expected);
  expect_counts(count_values("F64", wide), expected);
  expect_counts(count_values("F16", half), expected);
  expect_counts(count_values("BF16", bfloat), expected);
}

TEST(CountValues, LongRunsOfOneValueDoNotOverflow) {
  const std::vector<std::uint16_t> zeros(200'000);
  const auto counts = count_values("BF16", zeros);
  EXPECT_EQ(counts.zero, 200'000);
  EXPECT_TRUE(counts.constant);
}

/// The value of an 8-bit float with `exponent_bits`, as the formats' papers define it.
double eight_bit_value(int code, int exponent_bits, bool has_infinity, bool one_nan) {
  const int mantissa_bits = 7 - exponent_bits;
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  const bool top = exponent == (1 << exponent_bits) - 1;
  if (top && has_infinity) return mantissa == 0 ? sign * INFINITY : NAN;
  if (top && one_nan && mantissa == (1 << mantissa_bits) - 1) return NAN;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(mantissa, -mantissa_bits) + (exponent > 0 ? 1 : 0);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

TEST(CountValues, EveryCodeOfThe8BitFloats) {
  std::vector<std::uint8_t> codes(256);
  std::vector<double> e4m3, e5m2, fnuz, scale;
  for (int code = 0; code < 256; ++code) {
    codes[code] = static_cast<std::uint8_t>(code);
    e4m3.push_back(eight_bit_value(code, 4, false, true));
    e5m2.push_back(eight_bit_value(code, 5, true, false));
    fnuz.push_back(code == 0x80 ? NAN : code == 0 ? 0 : 1.0 + code);
    scale.push_back(code == 0xFF ? NAN : std::ldexp(1, code - 127));
  }
  expect_counts(count_values("F8_E4M3", codes), counts_by_hand(e4m3));
  expect_counts(count_values("F8_E5M2", codes), counts_by_hand(e5m2));
  expect_counts(count_values("F8_E4M3FNUZ", codes), counts_by_hand(fnuz));
  expect_counts(count_values("F8_E5M2FNUZ", codes), counts_by_hand(fnuz));
  expect_counts(count_values("F8_E8M0", codes), counts_by_hand(scale));
}

TEST(CountValues, IntegersAndPartsOfBytesAreFinite) {
  const std::vector<std::int64_t> counters{0, -1, 0};
  auto counts = count_values("I64", counters);
  EXPECT_EQ(counts.zero, 2);
  EXPECT_FALSE(counts.constant);
  EXPECT_EQ(counts.bad(), 0);
  counts = count_values("F4", std::vector<std::uint8_t>(8, 0xFF));
  EXPECT_EQ(counts.elements, 16);
  EXPECT_EQ(counts.bad(), 0);
  EXPECT_FALSE(counts.constant);
}

TEST(CountValues, AComplexNumberIsBadWhereAPartIs) {
  const std::vector<float> parts{1, 2, not_a_number, infinite, 0, -infinite, 3, not_a_number};
  const auto counts = count_values("C64", parts);
  EXPECT_EQ(counts.elements, 4);
  EXPECT_EQ(counts.nan, 2);
  EXPECT_EQ(counts.infinite, 1);
  EXPECT_EQ(counts.first_bad, 1);
}

TEST(CountValues, AddUpAsOneRun) {
  const std::vector<float> values{0, -0.0F, 0, infinite, not_a_number, 0, 1};
  for (std::size_t cut = 0; cut <= values.size(); ++cut) {
    const std::span all(values);
    auto counts = count_values("F32", all.first(cut));
    counts.add(count_values("F32", all.subspan(cut)));
    expect_counts(counts, count_values("F32", values));
  }
  auto equal = count_values("F32", std::vector<float>{0, -0.0F});
  equal.add(count_values("F32", std::vector<float>{-0.0F}));
  EXPECT_TRUE(equal.constant);
  equal.add(count_values("F32", std::vector<float>{1}));
  EXPECT_FALSE(equal.constant);
}

TEST(CountValues, AMaskHasZerosAndMinusInfinitiesAlone) {
  EXPECT_TRUE(count_values("F32", std::vector<float>{0, -infinite, -0.0F}).is_mask());
  EXPECT_TRUE(count_values("F32", std::vector<float>{-infinite}).is_mask());
  EXPECT_FALSE(count_values("F32", std::vector<float>{0, 0}).is_mask());
  EXPECT_FALSE(count_values("F32", std::vector<float>{0, infinite, -infinite}).is_mask());
  EXPECT_FALSE(count_values("F32", std::vector<float>{0, -infinite, 1}).is_mask());
  EXPECT_FALSE(count_values("F32", std::vector<float>{0, -infinite, not_a_number}).is_mask());
}

/// A safetensors file of float32 tensors, whose values are written as they are.
std::filesystem::path write_floats(const std::filesystem::path& file,
                                   const std::map<std::string, std::vector<float>>& tensors) {
  std::vector<merge::Stored> stored;
  for (const auto& [name, values] : tensors) stored.push_back(merge::f32(name, values));
  put_file(file, merge::safetensors(stored));
  return file;
}

TEST(CheckValues, NamesBadTensorsWithCountsAndTheFirstElement) {
  const TemporaryFolder folder;
  std::vector<float> large((block_bytes / 4) + 5, 1.5F);
  large.back() = not_a_number;  // in the second block
  large[3] = 2;
  const auto file = write_floats(folder.path() / "a.safetensors",
                                 {{"bad", {1, infinite, not_a_number, -infinite, not_a_number}},
                                  {"large", large},
                                  {"mask", {0, -infinite}},
                                  {"one", {4}},
                                  {"ones", {1, 1}},
                                  {"zeros", {0, 0}}});
  const auto checkpoint = checkpoints::open_checkpoint(file);
  for (const std::int64_t threads : {1, 3}) {
    const auto report = check_values(checkpoint, {.threads = threads});
    EXPECT_THAT(
        report.faults,
        ElementsAre("\"bad\": 2 NaN, 2 infinite of 5 values (F32, 5); the first is element 1",
                    formatted("\"large\": 1 NaN of {} values (F32, {}); the first is element {}",
                              count_text(std::ssize(large)),
                              large.size(),
                              large.size() - 1)));
    EXPECT_THAT(report.remarks,
                ElementsAre(HasSubstr("(mask)"), HasSubstr("(zeros)"), HasSubstr("(ones)")));
  }
}

TEST(CheckValues, EndsWhenItIsToStop) {
  const TemporaryFolder folder;
  const auto file = write_floats(folder.path() / "a.safetensors", {{"a", {1, 2}}});
  ByteProgress progress;
  progress.stop = true;
  EXPECT_THROW(check_values(checkpoints::open_checkpoint(file), {.progress = &progress}),
               std::runtime_error);
}

checkpoints::StoredTensor tensor_at(const std::string& name,
                                    std::int64_t offset,
                                    std::int64_t size) {
  return {.name = name,
          .dtype = "F32",
          .shape = {size},
          .boxes = {checkpoints::run_of(0, size, offset)}};
}

TEST(CheckPlaces, OverlappingTensorsOfADistributedCheckpointAreFaults) {
  checkpoints::Checkpoint checkpoint{.format = "torch.distributed.checkpoint", .files = {"f"}};
  checkpoint.tensors = {tensor_at("wide", 0, 100),
                        tensor_at("within", 8, 2),
                        tensor_at("end", 396, 3),
                        tensor_at("free", 408, 9)};
  const auto report = check_places(checkpoint);
  EXPECT_THAT(report.faults,
              ElementsAre(HasSubstr("\"wide\" and \"within\" overlap in f at byte 8"),
                          HasSubstr("\"wide\" and \"end\" overlap")));
  checkpoint.format = "PyTorch";
  EXPECT_THAT(check_places(checkpoint).faults, IsEmpty());
}

TEST(CheckPlaces, OnePlaceOfSeveralTensorsIsARemark) {
  checkpoints::Checkpoint checkpoint{.format = "PyTorch", .files = {"f"}};
  checkpoint.tensors = {tensor_at("a", 0, 4), tensor_at("b", 16, 4), tensor_at("c", 0, 4)};
  const auto report = check_places(checkpoint);
  EXPECT_THAT(report.faults, IsEmpty());
  EXPECT_THAT(report.remarks, ElementsAre("tensors at one place in the file: 2 tensors (a, c)"));
}

}  // namespace
}  // namespace dimred::verbs
