#include <gtest/gtest.h>

#include "checkpoints/safetensors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

struct Case {
  std::string header;
  std::int64_t data_bytes;
  std::string rule;  // part of the message
};

std::string row(const std::string& name, const std::string& rest) {
  return "\"" + name + "\":{\"dtype\":\"F32\"," + rest + "}";
}

TEST(SafetensorsHeader, AcceptsTheFormat) {
  const auto infos = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}}   )",
      20);
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[0].name, "a");
  EXPECT_EQ(infos[1].name, "e");
  EXPECT_EQ(infos[2].name, "b");
  EXPECT_EQ(infos[2].elements, 4);
  EXPECT_TRUE(parse_safetensors_header("{}", 0).empty());
}

/// Its memory grows with the text; that of lists alone does not come near to it.
TEST(SafetensorsHeader, OfManyTensors) {
  constexpr std::size_t count = 70'000;
  std::string header;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = std::to_string(i);
    header += (i == 0 ? "{" : ",") + row("e" + place,
                                         R"("shape":[1],"data_offsets":[)" + std::to_string(4 * i) +
                                             "," + std::to_string(4 * i + 4) + "]");
  }
  EXPECT_EQ(parse_safetensors_header(header + "}", 4 * count).size(), count);
  std::string lists = "{\"a\":[0";
  while (lists.size() < 4'000'000) lists += ",0";
  const auto text = thrown<std::runtime_error>([&] { parse_safetensors_header(lists + "]}", 0); });
  EXPECT_NE(text.find("bytes of memory"), std::string::npos) << text;
}

TEST(SafetensorsHeader, RefusesEveryBrokenRule) {
  const std::string a = row("a", R"("shape":[2],"data_offsets":[0,8])");
  const std::vector<Case> cases{
      {"", 0, "start with '{'"},
      {" {}", 0, "start with '{'"},
      {"[]", 0, "start with '{'"},
      {"{", 0, "not JSON"},
      {"{}x", 0, "not JSON"},
      {"{" + a + "," + a + "}", 8, "a: given twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "twice"},
      {"{" + a + "}", 9, "8 bytes of data after the header, received 9"},
      {"{" + a + "}", 7, "8 bytes of data"},
      {"{" + a + "," + row("b", R"("shape":[1],"data_offsets":[12,16])") + "}", 16, "no holes"},
      {"{" + a + "," + row("b", R"("shape":[1],"data_offsets":[4,8])") + "}", 8, "no overlap"},
      {"{" + row("a", R"("shape":[1],"data_offsets":[4,8])") + "}", 8, "start at byte 0"},
      {"{" + row("a", R"("shape":[3],"data_offsets":[0,8])") + "}", 8, "needs 12 bytes"},
      {"{" + row("a", R"("shape":[2],"data_offsets":[8,0])") + "}", 8, "needs 8 bytes"},
      {"{" + row("a", R"("shape":[2],"data_offsets":[0,8,8])") + "}",
       8,
       "data_offsets as two numbers"},
      {"{" + row("a", R"("shape":[2],"data_offsets":[-8,0])") + "}", 0, "integers in [0, 2^63)"},
      {"{" + row("a", R"("shape":[-2],"data_offsets":[0,8])") + "}", 8, "integers in [0, 2^63)"},
      {"{" + row("a", R"("shape":[2.0],"data_offsets":[0,8])") + "}", 8, "integers in [0, 2^63)"},
      {"{" + row("a", R"("shape":[18446744073709551615],"data_offsets":[0,8])") + "}",
       8,
       "integers in [0, 2^63)"},
      {"{" + row("a", R"("shape":[18446744073709551618],"data_offsets":[0,8])") + "}",
       8,
       "integers in [0, 2^63)"},
      {"{" + row("a", R"("shape":[4294967296,4294967297],"data_offsets":[0,8])") + "}",
       8,
       "needs 2^63 bits or more"},
      {"{" + row("a", R"("shape":[4611686018427387905],"data_offsets":[0,4])") + "}",
       4,
       "needs 2^63 bits or more"},  // times 4 bytes is 4 modulo 2^64
      {"{" + row("a", R"("shape":2,"data_offsets":[0,8])") + "}", 8, "shape as a list"},
      {"{" + row("a", R"("shape":[2],"data_offsets":[0,8],"x":1)") + "}", 8, "needs exactly"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})",
       2,
       "whole bytes, received 12 bits"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype \"F33\""},
      {R"({"a":[1]})", 8, "needs exactly"},
      {R"({"__metadata__":{"a":1}})", 0, "map texts to texts"},
      {R"({"__metadata__":"a"})", 0, "map texts to texts"},
      {"{\"a\":" + std::string(100000, '['), 0, "levels of nesting"},
  };
  for (const Case& wrong : cases) {
    const auto text = thrown<std::runtime_error>(
        [&] { parse_safetensors_header(wrong.header, wrong.data_bytes); });
    EXPECT_NE(text.find(wrong.rule), std::string::npos) << wrong.header.substr(0, 99) << "\n"
                                                        << text;
  }
}

TEST(SafetensorsHeader, RefusesLengthsThatTheFileDoesNotHave) {
  const TemporaryFolder folder;
  const auto read = [&] { read_safetensors_header(folder / "t"); };
  EXPECT_NE(thrown<std::invalid_argument>(read).find("does not exist"), std::string::npos);
  put_file(folder / "t", "short");
  EXPECT_NE(thrown<std::runtime_error>(read).find("8 bytes for the length of the header"),
            std::string::npos);
  for (const std::string& length : {std::string(8, '\xFF'),
                                    std::string("\3\0\0\0\0\0\0\0", 8),
                                    std::string("\0\0\0\0\0\0\0\x80", 8)}) {
    put_file(folder / "t", length + "{}");
    const auto text = thrown<std::runtime_error>(read);
    EXPECT_NE(text.find("header of at most 2 bytes"), std::string::npos) << text;
  }
  put_file(folder / "t", std::string("\2\0\0\0\0\0\0\0", 8) + "{}");
  EXPECT_NO_THROW(read());
  // A sparse file that is long enough: the limit of the format holds, and nothing is allocated.
  put_file(folder / "t", std::string("\1\xE1\xF5\5\0\0\0\0", 8));  // 100,000,001
  std::filesystem::resize_file(folder / "t", 200'000'000);
  EXPECT_NE(thrown<std::runtime_error>(read).find("at most 100000000 bytes, received 100000001"),
            std::string::npos);
}

}  // namespace
}  // namespace dimred::checkpoints
