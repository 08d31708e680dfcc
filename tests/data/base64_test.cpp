#include "data/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::HasSubstr;

/// RFC 4648, section 10.
const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};

TEST(Base64, GivesTheTestVectorsOfTheRfc) {
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(as_numbers(bytes)), text);
    std::vector<std::uint8_t> decoded;
    EXPECT_FALSE(from_base64(text, decoded).has_value());
    EXPECT_EQ(std::string(decoded.begin(), decoded.end()), bytes);
    EXPECT_EQ(base64_size(text), bytes.size());
  }
}

TEST(Base64, GivesEveryByteBackAtEveryPlace) {
  std::vector<std::uint8_t> bytes, decoded;
  for (int i = 0; i < 3 * 256; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i * 7 + i / 256));
    ASSERT_FALSE(from_base64(to_base64(bytes), decoded).has_value());
    ASSERT_EQ(decoded, bytes);
  }
}

TEST(Base64, RefusesWhatIsNotCanonical) {
  struct Case {
    std::string text, rule;
    std::size_t at;
  };
  const Case cases[] = {{"Zg", "multiple of 4", 2},
                        {"Zg=", "multiple of 4", 3},
                        {"Zm 9v", "multiple of 4", 5},
                        {"Zm9v\nZm9", "needs letters", 4},
                        {" Zm9", "needs letters", 0},
                        {"Zg==Zg==", "needs letters", 2},
                        {"Z===", "needs letters", 1},
                        {"====", "needs letters", 0},
                        {"Z=g=", "needs letters", 1},
                        {"Zm-_", "needs letters", 2},
                        {std::string("Zm\0v", 4), "needs letters", 2},
                        {"Zm\xc3\xa4", "needs letters", 2},
                        {"Zh==", "zeros in the unused bits", 1},
                        {"Zm9=", "zeros in the unused bits", 2}};
  for (const auto& [text, rule, at] : cases) {
    std::vector<std::uint8_t> decoded;
    const auto fault = from_base64(text, decoded);
    ASSERT_TRUE(fault.has_value()) << text;
    EXPECT_THAT(fault->rule, HasSubstr(rule)) << text;
    EXPECT_EQ(fault->at, at) << text;
  }
}

}  // namespace
}  // namespace dimred::data
