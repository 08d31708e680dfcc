#include "support/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace dimred {
namespace {

std::uint32_t of(const std::vector<std::uint8_t>& bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

/// The published check value and the examples of RFC 3720, appendix B.4.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xE3069283U);
  EXPECT_EQ(of({}), 0U);
  EXPECT_EQ(of(std::vector<std::uint8_t>(32, 0)), 0x8A9136AAU);
  EXPECT_EQ(of(std::vector<std::uint8_t>(32, 0xFF)), 0x62A8AB43U);
  std::vector<std::uint8_t> ascending(32);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(of(ascending), 0x46DD794EU);
  std::reverse(ascending.begin(), ascending.end());
  EXPECT_EQ(of(ascending), 0x113FDB5CU);
  std::vector<std::uint8_t> read_command(48, 0);  // an iSCSI SCSI Read (10) command
  read_command[0] = 0x01;
  read_command[1] = 0xC0;
  read_command[16] = 0x14;
  read_command[22] = 0x04;
  read_command[27] = 0x14;
  read_command[31] = 0x18;
  read_command[32] = 0x28;
  read_command[40] = 0x02;
  EXPECT_EQ(of(read_command), 0xD9963A56U);
}

/// Bit by bit, as the definition says, at every length and alignment around the slices of 8.
TEST(Crc32c, EqualsTheDefinitionAtEveryLength) {
  std::vector<std::uint8_t> bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * i + 3 * i);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t end = begin; end <= bytes.size(); ++end) {
      std::uint32_t value = 0xFFFFFFFF;
      for (std::size_t i = begin; i < end; ++i) {
        value ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82F63B78 : 0);
      }
      const auto part = std::span(bytes).subspan(begin, end - begin);
      ASSERT_EQ(crc32c(std::as_bytes(part)), ~value) << begin << ' ' << end;
    }
  }
}

/// The instruction's three streams of 512 and of 8192 bytes, around their borders.
TEST(Crc32c, IsTheSameByInstructionAndByTables) {
  std::vector<std::uint8_t> bytes(3 * 8192 * 2 + 5000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * i * 31 + i / 7);
  const auto all = std::as_bytes(std::span(bytes));
  const auto expect_equal_at = [&](std::size_t size) {
    EXPECT_EQ(crc32c(all.first(size)), crc32c_by_tables(all.first(size))) << size;
  };
  for (std::size_t size = 0; size < 64; ++size) expect_equal_at(size);
  for (const std::size_t whole : {3 * 512, 6 * 512, 3 * 8192, 3 * 8192 + 3 * 512, 6 * 8192})
    for (std::size_t size = whole - 20; size < whole + 20; ++size) expect_equal_at(size);
  for (std::size_t size = 0; size < bytes.size(); size += 977) expect_equal_at(size);
}

}  // namespace
}  // namespace dimred
