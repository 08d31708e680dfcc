#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/commands/program.h"

namespace dimred::commands {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The figures of ResNet-50 on 8 ranks, by hand: 1.75 vectors of 102 MB, 2.625, 15.75; P = 32 / 8
/// vectors.
TEST(InspectScale, ShowsTheFigures) {
  const auto outcome =
      dimred_program("inspect --scale M=25557032 k=32 R=8 bandwidth=300e9 memory=80e9");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors, "");
  for (const auto* part : {"M 25,557,032, k 32, n 60, R 8",
                           "178.9 MB   596 us",
                           "268.3 MB",
                           "1.6 GB",
                           "9.0 times as much as robust, 6.0 times",
                           "408.9 MB",
                           "snapshots 6.1 GB and matrix 3.3 GB",
                           "nothing breaks",
                           "not checked: needs disk=, seconds="})
    EXPECT_THAT(outcome.output, HasSubstr(part));
}

TEST(InspectScale, OneQuotedTextAndAnEqualsSignMeanTheSame) {
  const auto words = dimred_program("inspect --scale M=1e6 R=4");
  EXPECT_EQ(words.code, 0) << words.errors;
  EXPECT_EQ(dimred_program("inspect --scale 'M=1e6 R=4'").output, words.output);
  EXPECT_EQ(dimred_program("inspect --scale=M=1e6 R=4").output, words.output);
  EXPECT_NE(dimred_program("inspect --scale M=1e6 R=5").output, words.output);
}

TEST(InspectScale, LinesHaveNoBlanksAtTheirEnd) {
  EXPECT_THAT(dimred_program("inspect --scale M=1e6 R=4").output, Not(HasSubstr(" \n")));
}

TEST(InspectScale, SaysWhereTheDesignBreaks) {
  const auto outcome =
      dimred_program("inspect --scale M=70e9 R=1024 memory=141e9 seconds=10 disk=1e12");
  for (const auto* part : {"breaks: memory: stage 2 takes 1.1 TB a rank",
                           "no number of ranks fits",
                           "breaks: nodes: ",
                           "breaks: disk: "})
    EXPECT_THAT(outcome.output, HasSubstr(part));
  EXPECT_THAT(outcome.output, Not(HasSubstr("not checked")));
}

/// 10 million classes x 512 on 64 ranks: 156,250 each, 320 MB, twice with momentum; 8192 samples.
TEST(InspectScale, ShowsAClassShardedLayer) {
  const auto alone = dimred_program("inspect --scale C=10e6 R=64");
  EXPECT_EQ(alone.errors, "");
  for (const auto* part : {"last layer of C 10,000,000 x D 512, 128 samples a rank, R 64",
                           "640.0 MB  320.0 MB  5.1 GB   33.6 MB    6.1 GB",
                           "41.0 GB   20.5 GB  5.1 GB"})
    EXPECT_THAT(alone.output, HasSubstr(part));
  const auto both = dimred_program("inspect --scale M=1e6 C=10e6 R=64");
  EXPECT_THAT(both.output, testing::EndsWith("\n" + alone.output));
}

/// 262 TB of gradient: an all-reduce sends twice that.
TEST(InspectScale, CountsTheLargestLayers) {
  const auto huge = dimred_program("inspect --scale C=1e9 D=65536 R=100000");
  EXPECT_EQ(huge.errors, "");
  EXPECT_THAT(huge.output, HasSubstr("524.3 TB"));
  EXPECT_THAT(huge.output, Not(HasSubstr(" -")));
}

TEST(InspectScale, HelpListsTheKeys) {
  const auto outcome = dimred_program("inspect --help");
  for (const auto* key : {"\n  M=", "\n  node_bandwidth=", "\n  basis="})
    EXPECT_THAT(outcome.output, HasSubstr(key));
}

struct ScaleRefusal {
  std::string words;
  std::string message;
};
class InspectScaleRefuses : public testing::TestWithParam<ScaleRefusal> {};
TEST_P(InspectScaleRefuses, InOneLineWithCode2) {
  const auto outcome = dimred_program("inspect --scale " + GetParam().words);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors, testing::StartsWith("dimred inspect: error: "));
  EXPECT_THAT(outcome.errors, HasSubstr(GetParam().message));
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
}
INSTANTIATE_TEST_SUITE_P(
    Inspect,
    InspectScaleRefuses,
    testing::Values(
        ScaleRefusal{"M=1e9 bandwith=3", "--scale: bandwith: unknown key; did you mean bandwidth?"},
        ScaleRefusal{"M=1e9 R=0", "--scale: R: needs a whole number in [1, 1e+05], received 0"},
        ScaleRefusal{"M=many", "--scale: M: needs a number in [1, 1e+13], received many"},
        ScaleRefusal{"M=1.5", "M: needs the whole number of parameters, received 1.5"},
        ScaleRefusal{"R=8", "M: needs the whole number of parameters, received none"},
        ScaleRefusal{"C=63 R=64",
                     "C: needs at least a class for each rank, received 63 and R = 64"},
        ScaleRefusal{"C=1e13 D=65536 R=2",
                     "C: needs C, D and batch of a last layer of less than 9e+18"},
        ScaleRefusal{"C=1.5", "C: needs the whole number of classes, received 1.5"},
        ScaleRefusal{"M=1e9 k=60", "needs n - 1 >= k, received n = 60, k = 60"},
        ScaleRefusal{"M=1e9 bandwidth=nan",
                     "bandwidth: needs a number in (0, 1e+18), received nan"},
        ScaleRefusal{
            "M=1e9 basis=float16",
            "basis: needs one of float32 | bfloat16 (nearest: bfloat16), received float16"},
        ScaleRefusal{"M=1e9 R 8", "--scale: needs key=value words, received R"},
        ScaleRefusal{"M=1e9 M=2e9", "--scale: M: given twice"},
        ScaleRefusal{"", "--scale: needs a value"},
        ScaleRefusal{"M=1e9 --hlep", "--hlep: unknown option; did you mean --help?"}));

TEST(InspectScale, RefusesAFileBesideIt) {
  const auto outcome = dimred_program("inspect /tmp --scale M=1e9");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("needs a file or --scale, received both"));
}

}  // namespace
}  // namespace dimred::commands
