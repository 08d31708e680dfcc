#include "options/byte_size.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dimred {
namespace {

TEST(ByteSize, IsInPowersOfTen) {
  const auto bytes = [](const char* text) { return parse_byte_size(text).bytes; };
  EXPECT_EQ(bytes("20KB"), 20'000);
  EXPECT_EQ(bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(bytes("5"), 5'000'000'000);
  EXPECT_EQ(bytes(" 1.5 mb "), 1'500'000);
  EXPECT_EQ(bytes("2TB"), 2'000'000'000'000);
  EXPECT_EQ(bytes("800B"), 800);
  EXPECT_EQ(bytes("1e-9"), 1);
  EXPECT_EQ(bytes("1.2B"), 2);
  EXPECT_EQ(bytes("0"), 0);
}

TEST(ByteSize, ReadsBackWhatItWrites) {
  for (const std::int64_t bytes : {0L, 1L, 1234L, 20'000L, 1'500'000'000L, 7'000'000'000'000L})
    EXPECT_EQ(parse_byte_size(byte_size_text({bytes})).bytes, bytes);
  EXPECT_EQ(byte_size_text({20'000}), "20KB");
}

TEST(ByteSize, RefusesOtherUnits) {
  for (const auto* text : {"", "GB", "5GiB", "5K", "-1", "-1KB", "nan", "inf", "1 2KB", "2000TB"})
    EXPECT_THROW(parse_byte_size(text), std::invalid_argument) << text;
}

}  // namespace
}  // namespace dimred
