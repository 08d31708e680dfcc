#include "checkpoints/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dimred::checkpoints {
namespace {

std::string replaced(const char* pattern, const char* text, const std::string& name) {
  return NameReplacement({pattern, "names.txt:1"}, text).replaced(name);
}

std::string refused(const char* pattern, const char* text) {
  try {
    (void)NameReplacement({pattern, "names.txt:1"}, text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

// Values are those of Python's re.sub.
TEST(NamePattern, ReplacesAsPythonDoes) {
  EXPECT_EQ(replaced("^module\\.", "", "module.a.module.b"), "a.module.b");
  EXPECT_EQ(replaced("layer(\\d+)\\.(\\w+)", "h.\\2.\\g<1>", "layer12.mlp.bias"), "h.mlp.12.bias");
  EXPECT_EQ(replaced("x*", "-", "abxd"), "-a-b--d-");
  EXPECT_EQ(replaced("a", "<\\g<0>>\\\\", "aba"), "<a>\\b<a>\\");
  EXPECT_EQ(replaced("(a)|(b)", "[\\1\\2]", "ab"), "[a][b]");
  EXPECT_EQ(replaced("(a)(b)?", "\\2", "a"), "");
  EXPECT_EQ(replaced("$", ".weight", "norm"), "norm.weight");
}

TEST(NamePattern, RefusesOtherSyntaxWithItsPlace) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(refused("(", ""), AllOf(HasSubstr("names.txt:1"), HasSubstr("\"(\"")));
  EXPECT_THAT(refused("(?P<name>a)", ""), HasSubstr("ECMAScript"));
  EXPECT_THAT(refused("a", "\\1"), HasSubstr("group from 0 to 0"));
  EXPECT_THAT(refused("(a)", "\\g<b>"), HasSubstr("\"b\""));
  EXPECT_THAT(refused("a", "\\n"), HasSubstr("\\1 to"));
  EXPECT_THAT(refused("a", "end\\"), HasSubstr("names.txt:1"));
}

TEST(NamePattern, SplitsLinesAtTheLastSeparator) {
  const auto pair = [](auto a, auto b) { return std::pair<std::string, std::string>(a, b); };
  EXPECT_EQ(split_line("a -> b -> c", " -> ", "f:1"), pair("a -> b", "c"));
  EXPECT_EQ(split_line("a -> ", " -> ", "f:1"), pair("a", ""));
  EXPECT_EQ(split_line("a ->", " -> ", "f:1"), pair("a", ""));
  EXPECT_EQ(split_line("(?:a): 0.5 0.5", ": ", "f:1"), pair("(?:a)", "0.5 0.5"));
  EXPECT_THROW(split_line("a b", " -> ", "f:1"), std::invalid_argument);
  EXPECT_THROW(split_line(" -> b", " -> ", "f:1"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::checkpoints
