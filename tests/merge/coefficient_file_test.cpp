#include "merge/coefficient_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/tools/temporary_folder.h"

namespace dimred::merge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CoefficientFile : public testing::Test {
 protected:
  GivenCoefficients read(const std::string& text) const {
    return read_coefficients(folder.write("c.txt", text), 2);
  }
  std::string refusal(const std::string& text) const {
    return thrown<std::invalid_argument>([&] { read(text); });
  }
  TemporaryFolder folder;
};

TEST_F(CoefficientFile, HasANumberALine) {
  EXPECT_THAT(read("-0.25\n\n1.25 \n").all.values(), ElementsAre(-.25, 1.25));
  EXPECT_THAT(read("# oldest\n+0.3 # first: old\n0.7#\n").all.values(), ElementsAre(.3, .7));
  EXPECT_TRUE(read("1\n0\n").rules.empty());
  EXPECT_EQ(refusal("0.5\n0.5000005\n"), "no exception");
  EXPECT_THAT(refusal("+-1\n2\n"), HasSubstr("c.txt:1 needs a number, received +-1"));
  EXPECT_THAT(refusal("0.5\n0.500002\n"),
              HasSubstr("sum to one within 1e-6, received a sum of 1.0"));
  EXPECT_THAT(refusal("1\n"), HasSubstr("for each of 2 checkpoints, received 1"));
  EXPECT_THAT(refusal("0.5\nhalf\n"), HasSubstr("c.txt:2 needs a number, received half"));
  EXPECT_THAT(refusal("nan\n1\n"), HasSubstr("c.txt:1 needs a number, received nan"));
  EXPECT_THAT(refusal(""), HasSubstr("received 0"));
}

TEST_F(CoefficientFile, HasRulesByName) {
  const auto given = read("# a comment: 1 2\nmlp\\.: 0 1\r\na: b: 0.5 0.5\n\n.: 1 0\n");
  ASSERT_EQ(given.rules.size(), 3U);
  EXPECT_EQ(given.rules[1].pattern.text(), "a: b");
  EXPECT_THAT(rules_of({"x.mlp.w", "xmlp", "a: b"}, given.rules, "c"), ElementsAre(0, 2, 1));
  EXPECT_THAT(given.rules[0].coefficients.values(), ElementsAre(0, 1));
}

TEST_F(CoefficientFile, HasCommentsBehindRules) {
  const auto given = read("a.*: 0.1 0.9 # c\nb#1: 1 0\nc: 0 1# was: half\nd: 0.5 0.5  # e: 1 0\n");
  ASSERT_EQ(given.rules.size(), 4U);
  EXPECT_EQ(given.rules[0].pattern.text(), "a.*");
  EXPECT_THAT(given.rules[0].coefficients.values(), ElementsAre(.1, .9));
  EXPECT_EQ(given.rules[1].pattern.text(), "b#1");
  EXPECT_THAT(given.rules[2].coefficients.values(), ElementsAre(0, 1));
  EXPECT_EQ(given.rules[3].pattern.text(), "d");
  EXPECT_THAT(given.rules[3].coefficients.values(), ElementsAre(.5, .5));
  EXPECT_THAT(refusal("a: one 0 # c\n"), HasSubstr("c.txt:1 needs a number, received one"));
}

TEST_F(CoefficientFile, NeedsEachRuleToBeWhole) {
  EXPECT_THAT(refusal("w: 1 0\nb: 0.5 0.4\n"), HasSubstr("c.txt:2 needs coefficients that sum"));
  EXPECT_THAT(refusal("w: 1\n"), HasSubstr("c.txt:1 needs one coefficient for each of 2"));
  EXPECT_THAT(refusal("w: 1 zero\n"), HasSubstr("c.txt:1 needs a number, received zero"));
  EXPECT_THAT(refusal("w: 1 0\n0.5\n"), HasSubstr("c.txt:2"));
  EXPECT_THAT(refusal("(: 1 0\n"), HasSubstr("c.txt:1: needs a regular expression"));
  const auto given = read("^w$: 1 0\n");
  EXPECT_THAT(thrown<std::invalid_argument>([&] {
                rules_of({"w", "bias"}, given.rules, "c.txt");
              }),
              HasSubstr("c.txt needs a line for each tensor, received none for \"bias\""));
}

}  // namespace
}  // namespace dimred::merge
