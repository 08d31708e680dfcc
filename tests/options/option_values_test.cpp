#include "options/option_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/formatted.h"

namespace dimred {
namespace {

TEST(NumberText, IsShort) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(64), "64");
  EXPECT_EQ(number_text(1e-5), "1e-05");
  EXPECT_EQ(toml_number(64), "64.0");
  EXPECT_EQ(toml_number(-0.0), "-0.0");
  EXPECT_EQ(toml_number(1e30), "1e+30");
}

TEST(NumberText, ReadsBackTheSameBits) {
  std::mt19937_64 random(1);
  int tried = 0;
  while (tried < 20000) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value) || std::abs(value) >= 1e300) continue;
    ++tried;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(parse_number(number_text(value), {})),
              std::bit_cast<std::uint64_t>(value));
  }
}

TEST(ParseInteger, HoldsEverySixtyFourBitValue) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(parse_integer("9223372036854775807", {}), Limits::max());
  EXPECT_EQ(parse_integer("-9223372036854775808", {}), Limits::min());
  EXPECT_THROW(parse_integer("9223372036854775808", {}), std::invalid_argument);
}

TEST(ParseInteger, TakesOneSign) {
  EXPECT_EQ(parse_integer("+5", {}), 5);
  EXPECT_EQ(parse_integer(" -5 ", {}), -5);
  for (const auto* text : {"+-5", "-+5", "++5", "--5", "+", "-", "5-"}) {
    EXPECT_THROW(parse_integer(text, {}), std::invalid_argument) << text;
  }
}

TEST(RangeText, ShowsOpenAndClosedEnds) {
  EXPECT_EQ(range_text({}), "");
  EXPECT_EQ(range_text(at_least(1)), ">= 1");
  EXPECT_EQ(range_text(positive()), "> 0");
  EXPECT_EQ(range_text(between(0, 1)), "in [0, 1]");
  EXPECT_EQ(range_text(between_open(0, 0.5)), "in (0, 0.5)");
  EXPECT_EQ(range_text(Range{.high = 3, .high_open = true}), "< 3");
}

TEST(Range, EndsBelongToClosedRangesOnly) {
  EXPECT_EQ(parse_number("0", between(0, 1)), 0);
  EXPECT_EQ(parse_number("1", between(0, 1)), 1);
  EXPECT_THROW(parse_number("0", between_open(0, 1)), std::invalid_argument);
  EXPECT_THROW(parse_number("1", between_open(0, 1)), std::invalid_argument);
  EXPECT_THROW(parse_number("0", positive()), std::invalid_argument);
  EXPECT_EQ(parse_number("0", at_least(0)), 0);
  EXPECT_EQ(parse_number("1.7e308", at_least(0)), 1.7e308);  // each finite number is in a range
  EXPECT_EQ(parse_number("-1.7e308", {}), -1.7e308);
  EXPECT_THROW(parse_number("inf", at_least(0)), std::invalid_argument);
}

TEST(ParseText, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(parse_text("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  for (const auto* text : {"\xFF",
                           "a\x80",
                           "\xC3",
                           "\xC0\xAF",
                           "\xE2\x82",
                           "\xED\xA0\x80",
                           "\xF4\x90\x80\x80",
                           "\xE0\x80\x80",
                           "\xF0\x80\x80\x80"}) {
    EXPECT_THROW(parse_text(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace dimred
