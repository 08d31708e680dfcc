#include "checkpoints/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

std::string replaced(const char* pattern, const char* text, const std::string& name) {
  return NameReplacement({pattern, "names.txt:1"}, text).replaced(name);
}

std::string refused(const char* pattern, const char* text) {
  return thrown<std::invalid_argument>([&] {
    (void)NameReplacement({pattern, "names.txt:1"}, text);
  });
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

// Values are those of Python's re.sub with re.ASCII: a letter is a code point, not a byte.
TEST(NamePattern, MatchesBetweenLettersOfAnyScript) {
  EXPECT_EQ(replaced("x*", "-", "\u00FCx\u5C42"), "-\u00FC--\u5C42-");
  EXPECT_EQ(replaced("^.", "", "\U0001F600a"), "a");
  EXPECT_EQ(replaced("[\u00E4\u00F6]+", "o", "b\u00F6\u00E4.w"), "bo.w");
  EXPECT_EQ(replaced("\u00E9?w", "v", "e.w"), "e.v");
  EXPECT_EQ(replaced("\\w", "x", "\u00E9a"), "\u00E9x");
  EXPECT_EQ(replaced("(.)\\.", "\\1_", "\u00E9.w"), "\u00E9_w");
  EXPECT_EQ(replaced("$", "\u00E9", "a\xC3"), "a\xC3\u00E9");  // a stray byte stays
}

// Over bytes, \u0141 was A, and the range began behind its end.
TEST(NamePattern, EscapesOfOtherLettersMatchNoLettersOfAscii) {
  EXPECT_EQ(replaced("\\u0141", "-", "A.\u0141"), "A.-");
  EXPECT_EQ(replaced("\\u0141", "-", "A"), "A");
  EXPECT_EQ(replaced("[a-\\xFF]", "-", "Ab"), "A-");
  EXPECT_EQ(replaced("[^A]+", "-", "Ab\u5C42"), "A-");
}

TEST(NamePattern, RefusesOtherSyntaxWithItsPlace) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(refused("(", ""), AllOf(HasSubstr("names.txt:1"), HasSubstr("\"(\"")));
  EXPECT_THAT(refused("(?P<name>a)", ""), HasSubstr("ECMAScript"));
  EXPECT_THAT(refused("a", "\\1"), HasSubstr("group numbers from 0 to 0"));
  EXPECT_THAT(refused("(a)", "\\g<b>"), HasSubstr("\"b\""));
  EXPECT_THAT(refused("a", "\\n"), HasSubstr("\\1 to"));
  EXPECT_THAT(refused("a", "end\\"), HasSubstr("names.txt:1"));
}

// std::regex takes an unknown escape for the letter: "b\\Z" matched bZ.
TEST(NamePattern, RefusesEscapesThatEcmascriptLacks) {
  for (const char* text : {"b\\Z", "\\Aa", "a\\z", "[\\h]", "\\\\\\Q"})
    EXPECT_THAT(refused(text, ""), testing::HasSubstr("has no meaning")) << text;
  EXPECT_EQ(replaced("\\bw\\d+\\.\\x61\\\\", "-", "w12.a\\b"), "-b");
  EXPECT_EQ(replaced("\\_\\-\\/", "x", "_-/"), "x");
}

// Nested quantifiers backtrack for ages of the world.
TEST(NamePattern, GivesUpASearchWithoutEnd) {
  const std::string name = "model.language_model.layers.0.self_attn.q_proj.weight";
  for (const char* text : {"^(\\w+\\.?)+bias$", "^([a-z_]+[.0-9]*)*\\.bias$"}) {
    EXPECT_THAT(
        thrown<std::invalid_argument>([&] { NamePattern(text, "--exclude").searches(name); }),
        testing::HasSubstr("takes too long to match the name"))
        << text;
    EXPECT_THAT(thrown<std::invalid_argument>([&] { replaced(text, "x", name); }),
                testing::HasSubstr("takes too long to match the name"))
        << text;
  }
  EXPECT_TRUE(NamePattern("^(\\w+\\.?)+weight$", "--exclude").searches(name));
}

TEST(NameChoice, SaysThatNothingWasExcluded) {
  NameChoice choice("", "^bb$");
  EXPECT_TRUE(choice.takes("b"));
  EXPECT_EQ(choice.remark(), "--exclude: \"^bb$\" excludes no tensor");
  EXPECT_FALSE(choice.takes("bb"));
  EXPECT_EQ(choice.remark(), "");
  EXPECT_EQ(NameChoice("b", "").remark(), "");
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
