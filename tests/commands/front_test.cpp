#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/commands/program.h"

namespace dimred::commands {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

void expect_one_line_error(const Outcome& outcome,
                           int code,
                           const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors, HasSubstr(": error: "));
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  for (const auto& part : parts) EXPECT_THAT(outcome.errors, HasSubstr(part));
}

TEST(Front, HelpListsEverySubcommandOnOneLineEach) {
  const auto outcome = dimred_program("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const auto* name : {"stage1", "pca", "stage2", "evaluate", "inspect"}) {
    EXPECT_THAT(outcome.output, HasSubstr(formatted("\n  {} ", name)));
  }
}

TEST(Front, WithoutASubcommandSaysWhatToDoFirst) {
  const auto outcome = dimred_program("");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("\n  dimred pca run1\n"));
  EXPECT_THAT(outcome.errors, HasSubstr("dimred: error: [dimred] needs a subcommand"));
}

TEST(Front, VersionIsTheProjects) {
  const auto outcome = dimred_program("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, testing::MatchesRegex("dimred [0-9]+\\.[0-9]+\\.[0-9]+ \\(.+\\)\n"));
}

TEST(Front, SubcommandsHaveHelpWithinAHundredColumns) {
  for (const std::string name : {"pca", "inspect"}) {
    const auto outcome = dimred_program(name + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.output, StartsWith("dimred " + name + ": "));
    std::istringstream lines(outcome.output);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  }
}

struct FrontRefusal {
  std::string arguments;
  std::vector<std::string> parts;
};
class CallersFault : public testing::TestWithParam<FrontRefusal> {};
TEST_P(CallersFault, ExitsWith2AndOneLine) {
  expect_one_line_error(dimred_program(GetParam().arguments), 2, GetParam().parts);
}
INSTANTIATE_TEST_SUITE_P(
    Front,
    CallersFault,
    testing::Values(
        FrontRefusal{"stag1", {"dimred: error: stag1: unknown subcommand; did you mean stage1?"}},
        FrontRefusal{"pac --components 3", {"pac: unknown subcommand; did you mean pca?"}},
        FrontRefusal{"--hlep", {"--hlep: unknown subcommand; did you mean --help?"}},
        FrontRefusal{"xyzzyx", {"xyzzyx: unknown subcommand; see dimred --help"}},
        FrontRefusal{"pca", {"dimred pca: error: ", "needs --snapshots"}},
        FrontRefusal{"pca --component 3",
                     {"--component: unknown option; did you mean --components?"}},
        FrontRefusal{"pca --components many",
                     {"--components: needs a whole number >= 1, received many"}},
        FrontRefusal{"pca --components 0", {"--components: needs a whole number >= 1, received 0"}},
        FrontRefusal{"pca --threads -1", {"--threads: ", "in [0, 4096], received -1"}},
        FrontRefusal{"pca --tile_mb 99999999999999999999", {"--tile_mb: ", "99999999999999999999"}},
        FrontRefusal{"pca --snapshots", {"--snapshots: needs a value"}},
        FrontRefusal{"pca --snapshots /nowhere/at_all", {"dimred pca: error: ", "/nowhere/at_all"}},
        FrontRefusal{"pca a b", {"b: unexpected argument"}},
        FrontRefusal{"pca --config /nowhere/x.toml", {"--config: needs a readable file"}},
        FrontRefusal{"pca x --output y.bin", {"needs --output NAME.npy, received ", "/y.bin"}},
        FrontRefusal{"pca x --output /nowhere/y.npy",
                     {"needs an existing folder", "/nowhere/y.npy"}},
        FrontRefusal{"inspect", {"dimred inspect: error: ", "needs a file or folder"}},
        FrontRefusal{"inspect /nowhere/at_all",
                     {"needs an existing file or folder, received /nowhere"}},
        FrontRefusal{"inspect /etc/passwd",
                     {"needs a checkpoint, a snapshot (.h5)", "received /etc/passwd"}},
        FrontRefusal{"inspect /dev/null",
                     {"needs an existing file or folder, received /dev/null"}}));

TEST(Front, FullOutputIsAnError) {
  const int status = std::system("'" DIMRED_PROGRAM "' --help >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

/// A copy of the front in a folder of its own, where the trainer beside it is ours to choose.
class FrontWithTrainer : public testing::Test {
 protected:
  FrontWithTrainer() { fs::copy_file(DIMRED_PROGRAM, front); }
  void write_trainer(const std::string& script) {
    const auto trainer = folder.write("dimred-train", "#!/bin/sh\n" + script);
    fs::permissions(trainer, fs::perms::owner_all);
  }
  TemporaryFolder folder;
  fs::path front = folder.path() / "dimred";
};

TEST_F(FrontWithTrainer, HandsOverAllArgumentsAndTheExitCode) {
  write_trainer("echo $#; echo \"$@\"; exit 143\n");
  for (const std::string name : {"stage1", "stage2", "evaluate"}) {
    const auto outcome = run_program(front, name + " --data 'a b' --epochs=3");
    EXPECT_EQ(outcome.code, 143);
    EXPECT_EQ(outcome.output, "4\n" + name + " --data a b --epochs=3\n");
  }
}

TEST_F(FrontWithTrainer, MissingTrainerIsAnErrorOfTheEnvironment) {
  expect_one_line_error(run_program(front, "stage1"),
                        1,
                        {"dimred stage1: error: cannot run ", "dimred-train", "scripts/setup.sh"});
}

}  // namespace
}  // namespace dimred::commands
