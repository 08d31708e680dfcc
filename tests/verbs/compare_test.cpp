#include "checkpoints/verbs/compare.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "checkpoints/float_formats.h"

namespace dimred::verbs {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::bit_cast<float>(0x7FC00000U);
const float other_nan = std::bit_cast<float>(0x7FC00001U);
const float signalling_nan = std::bit_cast<float>(0x7F800001U);

template <class T>
struct Stored {
  std::string_view dtype;
  std::vector<T> values;
  StoredElements elements() const { return {dtype, values}; }
};

Stored<float> f32(std::vector<float> values) { return {"F32", std::move(values)}; }
Stored<double> f64(std::vector<double> values) { return {"F64", std::move(values)}; }
Stored<std::int64_t> i64(std::vector<std::int64_t> values) { return {"I64", std::move(values)}; }
Stored<std::uint64_t> u64(std::vector<std::uint64_t> values) { return {"U64", std::move(values)}; }
Stored<std::uint8_t> bytes(std::string_view dtype, std::vector<std::uint8_t> values) {
  return {dtype, std::move(values)};
}
Stored<std::uint16_t> halves(std::string_view dtype, std::vector<std::uint16_t> bits) {
  return {dtype, std::move(bits)};
}

template <class A, class B>
Distance distance(const Stored<A>& a, const Stored<B>& b, const Tolerance& tolerance = {}) {
  return compare(a.elements(), b.elements(), tolerance);
}

TEST(Compare, SameBitsAreTheSameWhateverTheyMean) {
  const auto values = f32({0, -0.0F, nan, signalling_nan, infinity, -infinity, 1e-45F, 3});
  const auto same = distance(values, values);
  EXPECT_EQ(same.elements, 8);
  EXPECT_EQ(same.different, 0);
  EXPECT_TRUE(same.same_bits);
  EXPECT_EQ(same.max_abs, 0);
  EXPECT_EQ(same.max_rel, 0);
  EXPECT_EQ(same.max_ulp, 0);
  EXPECT_EQ(same.cosine(), 1);
}

TEST(Compare, ZerosOfTwoSignsDifferAtNoDistance) {
  const auto zeros = distance(f32({0, 1}), f32({-0.0F, 1}));
  EXPECT_EQ(zeros.different, 1);
  EXPECT_FALSE(zeros.same_bits);
  EXPECT_EQ(zeros.max_abs, 0);
  EXPECT_EQ(zeros.max_rel, 0);
  EXPECT_EQ(zeros.max_ulp, 0);
  EXPECT_EQ(distance(f32({0}), f64({-0.0})).different, 1);
  EXPECT_EQ(distance(f32({0}), f32({-0.0F}), {.absolute = 1e-30}).different, 0);
}

TEST(Compare, NanOfAnotherPayloadDiffersAtNoDistance) {
  for (const float one : {other_nan, signalling_nan, -nan}) {
    const auto payload = distance(f32({nan, 1}), f32({one, 2}));
    EXPECT_EQ(payload.different, 2);
    EXPECT_EQ(payload.max_abs, 1);
    EXPECT_EQ(payload.max_ulp, 0x800000);
    EXPECT_EQ(distance(f32({nan}), f32({one}), {.relative = 1}).different, 0);
  }
  EXPECT_EQ(distance(f32({nan}), f64({std::nan("3")})).different, 0);  // of two types
}

TEST(Compare, NanOfOneAloneIsNoDistance) {
  const auto one = distance(f32({1, nan, 5}), f32({1, 2, 7}), {.absolute = 1});
  EXPECT_EQ(one.different, 2);
  EXPECT_TRUE(std::isnan(*one.max_abs));
  EXPECT_TRUE(std::isnan(*one.max_rel));
  EXPECT_EQ(one.max_ulp, std::nullopt);
  EXPECT_EQ(one.cosine(), std::nullopt);
}

TEST(Compare, AnInfinityIsItselfAlone) {
  const Tolerance wide{.relative = 1e9, .absolute = 1e9};
  const auto apart = distance(f32({infinity, 1, infinity}), f32({1, infinity, -infinity}), wide);
  EXPECT_EQ(apart.different, 3);
  EXPECT_EQ(apart.max_abs, infinity);
  EXPECT_EQ(distance(f32({infinity}), f64({INFINITY}), wide).different, 0);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(distance(f32({largest}), f32({infinity})).max_ulp, 1);
}

// The oracle walks from float to float.
TEST(Compare, UlpsCountTheFloatsBetween) {
  for (const float start : {0.0F, 1.0F, 0x1p-126F, -0x1p-130F, 6.5e4F}) {
    float next = start;
    for (std::uint64_t step = 1; step <= 5; ++step) {
      next = std::nextafter(next, infinity);
      EXPECT_EQ(distance(f32({start}), f32({next})).max_ulp, step);
      EXPECT_EQ(distance(f32({next}), f32({start})).max_ulp, step);
    }
    const double further = std::nextafter(std::nextafter(double{start}, -1e9), -1e9);
    EXPECT_EQ(distance(f64({start}), f64({further})).max_ulp, 2);
  }
  EXPECT_EQ(distance(f32({-1e-45F}), f32({1e-45F})).max_ulp, 2);  // over both zeros
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(distance(f64({-largest}), f64({largest})).max_ulp, 2 * 0x7FEFFFFFFFFFFFFFU);
}

TEST(Compare, UlpsOfSixteenBits) {
  EXPECT_EQ(distance(halves("BF16", {0x3F80}), halves("BF16", {0x3F83})).max_ulp, 3);
  EXPECT_EQ(distance(halves("F16", {0x8002}), halves("F16", {0x0001})).max_ulp, 3);
  EXPECT_EQ(distance(halves("F16", {0x7C01}), halves("F16", {0x7E00})).max_ulp, 0);  // two NaN
  const auto half = distance(halves("F16", {0x3C00}), halves("F16", {0x3C01}));
  EXPECT_EQ(half.max_abs, 0x1p-10);
  EXPECT_EQ(distance(halves("BF16", {0x3F80}), halves("F16", {0x3C00})).max_ulp, std::nullopt);
}

TEST(Compare, AnotherTypeIsComparedByValue) {
  const auto same = distance(f32({1.5F, -2, 1e-45F}), f64({1.5, -2, double{1e-45F}}));
  EXPECT_EQ(same.different, 0);
  EXPECT_FALSE(same.same_bits);
  EXPECT_EQ(same.max_abs, 0);
  EXPECT_EQ(same.max_ulp, std::nullopt);
  EXPECT_DOUBLE_EQ(*same.cosine(), 1);
  EXPECT_EQ(distance(f32({0.1F}), f64({0.1})).different, 1);
  EXPECT_EQ(distance(i64({3, 4}), f32({3, 4.5F})).different, 1);
  EXPECT_EQ(distance(bytes("BOOL", {0, 1}), i64({0, 1})).different, 0);
  const std::int64_t beyond = (std::int64_t{1} << 53) + 1;  // float64 has only its neighbours
  EXPECT_EQ(distance(i64({beyond}), f64({0x1p53})).different, 1);
  EXPECT_EQ(distance(f64({0x1p53}), i64({beyond})).different, 1);
}

TEST(Compare, IntegersAreExact) {
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  const std::uint64_t highest = std::numeric_limits<std::uint64_t>::max();
  const auto near = distance(i64({lowest, 7}), i64({lowest + 1, 7}));
  EXPECT_EQ(near.different, 1);
  EXPECT_EQ(near.max_abs, 1);
  EXPECT_EQ(near.max_ulp, std::nullopt);
  EXPECT_EQ(distance(i64({0}), i64({std::int64_t{1} << 53})).max_abs, 0x1p53);
  EXPECT_EQ(distance(i64({0}), i64({(std::int64_t{1} << 53) + 1})).max_abs, infinity);
  EXPECT_EQ(distance(i64({lowest}), u64({highest})).max_abs, infinity);
  EXPECT_EQ(distance(i64({-1}), u64({highest})).different, 1);
  EXPECT_EQ(distance(bytes("U8", {0}), bytes("I8", {255})).max_abs, 1);  // 0 and -1
  EXPECT_EQ(distance(bytes("U8", {0}), bytes("U8", {255})).max_abs, 255);
}

TEST(Compare, TypesWithoutValuesHaveTheirBits) {
  const auto eight = distance(bytes("F8_E4M3", {1, 2, 0x80}), bytes("F8_E4M3", {1, 3, 0}));
  EXPECT_EQ(eight.elements, 3);
  EXPECT_EQ(eight.different, 2);
  EXPECT_EQ(eight.max_abs, std::nullopt);
  EXPECT_EQ(eight.cosine(), std::nullopt);
  const auto four = distance(bytes("F4", {0x21, 0x43}), bytes("F4", {0x20, 0x34}));
  EXPECT_EQ(four.elements, 4);
  EXPECT_EQ(four.different, 3);
  const auto six = distance(bytes("F6_E2M3", {0, 0, 0}), bytes("F6_E2M3", {0x40, 0x10, 0}));
  EXPECT_EQ(six.elements, 4);
  EXPECT_EQ(six.different, 2);  // bits 6 and 12: elements 1 and 2
  const auto complex =
      distance(Stored<float>{"C64", {1, 2, 3, 4}}, Stored<float>{"C64", {1, 2, 3, 5}});
  EXPECT_EQ(complex.elements, 2);
  EXPECT_EQ(complex.different, 1);
  const auto other = distance(bytes("F8_E4M3", {1}), bytes("F8_E5M2", {1}));
  EXPECT_EQ(other.elements, 1);
  EXPECT_EQ(other.different, std::nullopt);
}

TEST(Compare, DistancesWithinATolerance) {
  const auto a = f64({10, 10, 0, -3});
  const auto b = f64({10.1, 10.2, 0.01, -3});
  EXPECT_NEAR(*distance(a, b, {.absolute = 1}).max_abs, 0.2, 1e-14);
  EXPECT_EQ(distance(a, b, {.absolute = 1}).max_rel, 1);
  EXPECT_EQ(distance(i64({100}), i64({101}), {.absolute = 1}).different, 0);
  EXPECT_EQ(distance(f64({1}), f64({0})).max_rel, infinity);
}

// Chunks and calls change sums alone, and these by rounding.
TEST(Compare, PartsAddUpToTheWhole) {
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(5000), b(5000);
  double product = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = normal(generator);
    b[i] = i % 3 == 0 ? a[i] : normal(generator);
    product += double{a[i]} * b[i];
    square_a += double{a[i]} * a[i];
    square_b += double{b[i]} * b[i];
  }
  const auto whole = distance(f32(a), f32(b));
  auto sum = distance(f32({}), f32({}));
  for (std::size_t first = 0; first < a.size(); first += 700) {
    const auto size = std::min<std::size_t>(700, a.size() - first);
    const auto part = [&](const auto& all) {
      return f32({all.begin() + first, all.begin() + first + size});
    };
    sum.add(distance(part(a), part(b)));
  }
  EXPECT_EQ(sum.elements, 5000);
  EXPECT_EQ(sum.different, whole.different);
  EXPECT_EQ(sum.max_abs, whole.max_abs);
  EXPECT_EQ(sum.max_rel, whole.max_rel);
  EXPECT_EQ(sum.max_ulp, whole.max_ulp);
  const double cosine = product / std::sqrt(square_a * square_b);
  EXPECT_NEAR(*sum.cosine(), cosine, 1e-13);
  EXPECT_NEAR(*whole.cosine(), cosine, 1e-13);
}

TEST(Compare, CosinesOfKnownAngles) {
  EXPECT_EQ(distance(f32({1, 0}), f32({0, 2})).cosine(), 0);
  EXPECT_NEAR(*distance(f32({1, 2}), f32({-2, -4})).cosine(), -1, 1e-15);
  EXPECT_EQ(distance(f32({0}), f32({1})).cosine(), std::nullopt);
  EXPECT_EQ(distance(f32({}), f32({})).cosine(), std::nullopt);
  EXPECT_NEAR(*distance(i64({3, 4}), i64({4, 3})).cosine(), 24.0 / 25, 1e-15);
}

}  // namespace
}  // namespace dimred::verbs
