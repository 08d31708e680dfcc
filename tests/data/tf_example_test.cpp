#include "data/tf_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::HasSubstr;

std::string field(int number, const std::string& content) {
  const auto size = content.size();  // < 2^14: one or two bytes
  std::string length(1, static_cast<char>(size < 128 ? size : size % 128 + 128));
  if (size >= 128) length += static_cast<char>(size / 128);
  return std::string(1, static_cast<char>(number * 8 + 2)) + length + content;
}

std::string map_entry(const std::string& name, const std::string& feature) {
  return field(1, field(1, name) + field(2, feature));
}

std::string bytes_feature(const std::string& value) { return field(1, field(1, value)); }

/// Int64List { value: 7 } unpacked: tag 08, then the number.
const std::string label_7 = field(3, std::string("\x08\x07", 2));

std::string message(const std::string& entries) { return field(1, entries); }

ImageExample parse(const std::string& text) { return parse_image_example(as_numbers(text)); }

std::string message_text(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Written out by hand from the encoding's documentation.
TEST(TfExample, ReadsTheBytesOfTheWireFormat) {
  const std::string bytes(
      "\x0a\x32"  // Example.features, 50 bytes
      "\x0a\x15\x0a\x0d"
      "image/encoded"
      "\x12\x04\x0a\x02\x0a\x00"  // {""} as bytes_list
      "\x0a\x19\x0a\x11"
      "image/class/label"
      "\x12\x04\x1a\x02\x08\x07",
      2 + 23 + 27);
  const auto example = parse(bytes);
  EXPECT_EQ(example.label, 7);
  EXPECT_EQ(example.encoded.size(), 0U);
}

TEST(TfExample, ReadsPackedAndUnpackedLabels) {
  const auto with = [](const std::string& list) {
    return message(map_entry("image/encoded", bytes_feature("picture")) +
                   map_entry("image/class/label", field(3, list)));
  };
  EXPECT_EQ(parse(with(std::string("\x08\x96\x01", 3))).label, 150);  // unpacked
  EXPECT_EQ(parse(with(field(1, "\x96\x01"))).label, 150);            // packed
  EXPECT_EQ(parse(with(field(1, std::string(9, '\xff') + '\x01'))).label, -1);
}

TEST(TfExample, PassesOverWhatItDoesNotKnow) {
  const std::string unknown = std::string("\x78\x05", 2) +         // field 15, varint
                              std::string("\x7d", 1) + "1234" +    // fixed32
                              std::string("\x79", 1) + "12345678"  // fixed64
                              + field(9, "anything");
  const auto text = unknown + message(unknown + map_entry("image/width", label_7) +
                                      map_entry("weights", field(2, field(1, "12345678"))) +
                                      field(1,
                                            unknown + field(2, unknown + bytes_feature("picture")) +
                                                field(1, "image/encoded")) +
                                      map_entry("image/class/label", label_7) +
                                      map_entry("image/format", bytes_feature("JPEG")) +
                                      map_entry("image/class/text", bytes_feature("tulips")));
  const auto example = parse(text);
  EXPECT_EQ(message_text(example.encoded), "picture");
  EXPECT_EQ(example.label, 7);
  EXPECT_EQ(example.format, "JPEG");
  EXPECT_EQ(example.class_name, "tulips");
}

TEST(TfExample, TheLastOfANameCounts) {
  const auto label_3 = field(3, std::string("\x08\x03", 2));
  const auto text = message(map_entry("image/class/label", label_3) +
                            map_entry("image/encoded", bytes_feature("picture"))) +
                    message(map_entry("image/class/label", label_7));
  EXPECT_EQ(parse(text).label, 7);
}

TEST(TfExample, NamesWhatIsMissing) {
  const auto picture = map_entry("image/encoded", bytes_feature("picture"));
  EXPECT_THAT(error_of([&] { parse(message(map_entry("image/class/label", label_7))); }),
              HasSubstr("needs the feature image/encoded with one byte string, received none"));
  EXPECT_THAT(error_of([&] { parse(message(picture)); }),
              HasSubstr("needs the feature image/class/label with one integer, received none"));
  const auto two = field(3, field(1, "\x01\x02"));
  EXPECT_THAT(error_of([&] { parse(message(picture + map_entry("image/class/label", two))); }),
              HasSubstr("with one integer, received 2"));
  EXPECT_THAT(error_of([&] { parse(""); }), HasSubstr("image/encoded"));
}

/// No beginning of a message is one with both features, and none is read beyond its end.
TEST(TfExample, RefusesEveryCutMessage) {
  const auto whole = to_message({.encoded = as_numbers("picture"), .format = "png", .label = 300});
  EXPECT_EQ(parse(whole).label, 300);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::uint8_t> cut(whole.begin(),
                                        whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_image_example(cut), std::runtime_error) << size;
  }
}

TEST(TfExample, SaysWhereItIsDamaged) {
  EXPECT_THAT(error_of([] { parse(std::string("\x0a\x05\x0a", 3)); }),
              HasSubstr("needs a whole protobuf message, received 1 of 5 bytes at byte 2"));
  EXPECT_THAT(error_of([] { parse(std::string(11, '\xff')); }), HasSubstr("at most 10 bytes"));
  EXPECT_THAT(error_of([] { parse(std::string("\x0b", 1)); }),
              HasSubstr("needs wire type 0, 1, 2 or 5, received 3 at byte 1"));
  EXPECT_THAT(error_of([] { parse(std::string("\x02\x00", 2)); }), HasSubstr("field numbers"));
}

TEST(TfExample, WritesWhatItReads) {
  const auto picture = image_file(1);
  const auto example = parse(to_message(
      {.encoded = as_numbers(picture), .format = "png", .label = -5, .class_name = "a b"}));
  EXPECT_EQ(message_text(example.encoded), picture);
  EXPECT_EQ(example.format, "png");
  EXPECT_EQ(example.label, -5);
  EXPECT_EQ(example.class_name, "a b");
}

}  // namespace
}  // namespace dimred::data
