#include "data/tfrecord.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace dimred::data {
namespace {

std::span<const std::byte> record_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string record_text(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

/// crc32c("123456789") = 0xE3069283; rotated right by 15 bits 0x2507C60D, plus 0xA282EAD8.
TEST(TfRecord, MasksTheChecksum) {
  EXPECT_EQ(masked_crc32c(record_bytes("123456789")), 0x2507C60DU + 0xA282EAD8U);
}

/// The empty record as TensorFlow's writer gives it: the length's checksum is that of 8 zero bytes.
TEST(TfRecord, FramesAsTheFormatSays) {
  const auto record = to_tfrecord("abc");
  ASSERT_EQ(record.size(), 3U + 16U);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  EXPECT_EQ(to_tfrecord(""), std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
}

TEST(TfRecord, ReadsOneRecordAfterAnother) {
  const std::string with_zeros("\0x\0", 3);
  const auto file = to_tfrecord("first") + to_tfrecord("") + to_tfrecord(with_zeros);
  auto rest = record_bytes(file);
  for (const auto& expected : {std::string("first"), std::string(), with_zeros}) {
    const auto record = first_tfrecord(rest);
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record_text(record->payload), expected);
    rest = rest.subspan(record->size);
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(first_tfrecord(rest).has_value());
}

TEST(TfRecord, ATornRecordIsNoneYet) {
  const auto record = to_tfrecord("payload");
  for (std::size_t size = 0; size < record.size(); ++size)
    EXPECT_FALSE(first_tfrecord(record_bytes(record).first(size)).has_value()) << size;
}

TEST(TfRecord, EveryFlippedBitIsNoticed) {
  const auto record = to_tfrecord("payload");
  for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
    auto damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(first_tfrecord(record_bytes(damaged)), std::runtime_error) << bit;
  }
}

/// A length near 2^64, its checksum right: no sum with it may overflow.
TEST(TfRecord, AnnouncesMoreThanThereIs) {
  std::string head(8, '\xff');
  const auto checksum = masked_crc32c(record_bytes(head));
  for (int i = 0; i < 4; ++i) head += static_cast<char>(checksum >> 8 * i);
  EXPECT_FALSE(first_tfrecord(record_bytes(head + "0123456789")).has_value());
}

}  // namespace
}  // namespace dimred::data
