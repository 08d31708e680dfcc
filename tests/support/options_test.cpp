#include "support/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/errors.h"
#include "support/options_file.h"
#include "tests/support/options_fixture.h"

namespace dimred {
namespace {

using Arguments = std::vector<std::string>;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(OptionTable, KeepsDefaultsWithoutArguments) {
  Everything e;
  EXPECT_EQ(e.table.parse({}), std::nullopt);
  EXPECT_EQ(e.batch_size, 64);
  EXPECT_EQ(e.momentum, 0.9);
  EXPECT_FALSE(e.table.was_set("batch_size"));
}

TEST(OptionTable, ReadsEveryKindFromFlags) {
  Everything e;
  e.table.parse({"--batch_size",
                 "7",
                 "--learning_rate=1e-3",
                 "--momentum",
                 "none",
                 "--epochs",
                 "12",
                 "--nesterov",
                 "--name",
                 "a=b c",
                 "--data=/x/y z",
                 "--milestones",
                 "3, 4.5",
                 "--fruit",
                 "quince"});
  EXPECT_EQ(e.batch_size, 7);
  EXPECT_EQ(e.learning_rate, 1e-3);
  EXPECT_EQ(e.momentum, std::nullopt);
  EXPECT_EQ(e.epochs, 12);
  EXPECT_TRUE(e.nesterov);
  EXPECT_EQ(e.name, "a=b c");
  EXPECT_EQ(e.data, "/x/y z");
  EXPECT_THAT(e.milestones, ElementsAre(3, 4.5));
  EXPECT_EQ(e.fruit, Fruit::quince);
  EXPECT_EQ(e.table.origin("fruit"), OptionOrigin::flag);
}

TEST(OptionTable, TakesDashesAsUnderscoresInNamesOnly) {
  Everything e;
  e.table.parse({"--batch-size=8", "--name=a-b"});
  EXPECT_EQ(e.batch_size, 8);
  EXPECT_EQ(e.name, "a-b");
}

struct SwitchCase {
  Arguments arguments;
  bool expected;
};
class Switch : public testing::TestWithParam<SwitchCase> {};
TEST_P(Switch, StandsAloneOrTakesTrueOrFalse) {
  Everything e;
  e.nesterov = !GetParam().expected;
  e.table.parse(GetParam().arguments);
  EXPECT_EQ(e.nesterov, GetParam().expected);
}
INSTANTIATE_TEST_SUITE_P(OptionTable,
                         Switch,
                         testing::Values(SwitchCase{{"--nesterov"}, true},
                                         SwitchCase{{"--nesterov", "true"}, true},
                                         SwitchCase{{"--nesterov", "false"}, false},
                                         SwitchCase{{"--nesterov=false"}, false},
                                         SwitchCase{{"--nesterov=True"}, true},
                                         SwitchCase{{"--nesterov=off"}, false},
                                         SwitchCase{{"--nesterov=0"}, false},
                                         SwitchCase{{"--nesterov", "--epochs", "3"}, true}));

TEST(OptionTable, SwitchLeavesTheBareArgumentBehindIt) {
  Everything e;
  e.table.positional("data");
  e.table.parse({"--nesterov", "folder"});
  EXPECT_TRUE(e.nesterov);
  EXPECT_EQ(e.data, std::filesystem::absolute("folder"));
}

TEST(OptionTable, FillsPositionalRowsInOrder) {
  Everything e;
  e.table.positional("data");
  e.table.positional("name");
  e.table.parse({"first", "--batch_size", "3", "second"});
  EXPECT_EQ(e.data, std::filesystem::absolute("first"));
  EXPECT_EQ(e.name, "second");
}

TEST(OptionTable, PositionalRowGivenAsFlagIsTaken) {
  Everything e;
  e.table.positional("data");
  e.table.positional("name");
  e.table.parse({"--data", "x", "y"});
  EXPECT_EQ(e.data, std::filesystem::absolute("x"));
  EXPECT_EQ(e.name, "y");
}

TEST(OptionTable, EmptyValueAfterEqualsIsTheValue) {
  Everything e;
  e.table.parse({"--name=", "--batch_size=5"});
  EXPECT_EQ(e.name, "");
  EXPECT_EQ(e.batch_size, 5);
}

TEST(OptionTable, PathsGivenAreMadeAbsolute) {
  Everything e;
  e.table.parse({"--data=a/./b/../c/"});
  EXPECT_EQ(e.data, std::filesystem::current_path() / "a" / "c");
  e.table.parse({"--data=/x"});
  EXPECT_EQ(e.data, "/x");
}

TEST(OptionTable, EmptyPathIsRefusedAsAFlagAndMeansUnsetInAFile) {
  Everything e;
  EXPECT_EQ(refusal([&] { e.table.parse({"--data="}); }), "--data: needs a path, received \"\"");
  const TemporaryFolder folder;
  e.table.read_file(folder.write("a.toml", "data = \"\"\n"));
  EXPECT_TRUE(e.data.empty());
}

TEST(OptionTable, AdoptingSaysWhatWasSetOtherwise) {
  Everything from, into;
  from.table.parse({"--batch_size=5", "--name=a", "--data=/x"});
  const TemporaryFolder folder;
  const auto file = folder.write("config.toml", from.table.to_toml());
  into.table.parse({"--batch_size=7", "--data=/x"});
  EXPECT_EQ(into.table.adopt(read_config_file(file), {"Data"}),
            std::vector<std::string>{"batch_size = 7 overrides 5"});
  EXPECT_EQ(into.batch_size, 7);
  EXPECT_EQ(into.name, "run");  // of another group
  EXPECT_EQ(into.table.adopt(read_config_file(file), {"Data", "Training"}).size(), 1U);
  EXPECT_EQ(into.name, "a");
}

TEST(OptionTable, NegativeNumberIsAValue) {
  double shift = 0;
  OptionTable table("dimred test", "");
  table.add("shift", &shift, "");
  table.parse({"--shift", "-1.5"});
  EXPECT_EQ(shift, -1.5);
}

TEST(OptionTable, FlagOverridesFileOverridesDefault) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", "batch_size = 32\nlearning_rate = 0.5\n");
  Everything e;
  e.table.parse({"--batch_size", "16", "--config", file.string()});
  EXPECT_EQ(e.batch_size, 16);
  EXPECT_EQ(e.learning_rate, 0.5);
  EXPECT_EQ(e.name, "run");
  EXPECT_EQ(e.table.origin("batch_size"), OptionOrigin::flag);
  EXPECT_EQ(e.table.origin("learning_rate"), OptionOrigin::file);
  EXPECT_EQ(e.table.origin("name"), OptionOrigin::default_value);
}

TEST(OptionTable, FileReadLaterLeavesFlagsAlone) {
  const TemporaryFolder folder;
  Everything e;
  e.table.parse({"--batch_size", "16"});
  e.table.read_file(folder.write("a.toml", "batch_size = 32\nepochs = 5\n"));
  EXPECT_EQ(e.batch_size, 16);
  EXPECT_EQ(e.epochs, 5);
}

TEST(OptionTable, UnknownNamesInCodeAreOurBug) {
  Everything e;
  EXPECT_THROW((void)e.table.was_set("nothing"), std::logic_error);
  double field = 0;
  EXPECT_THROW(e.table.add("epochs", &field, ""), std::logic_error);
}

TEST(OptionTable, HelpShowsGroupsRangesChoicesAndDefaults) {
  Everything e;
  e.learning_rate = 5;  // the default is what the field held when it was added
  const auto help = e.table.parse({"--batch_size", "no", "--help"});
  ASSERT_TRUE(help.has_value());
  for (const auto* part : {"dimred test: tries every kind of option",
                           "\nData:\n",
                           "\nTraining:\n",
                           "--batch_size N",
                           "(>= 1; default 64)",
                           "(in (0, 10); default 0.1)",
                           "(apple | pear | quince; default pear)",
                           "(in [1, 1000]; default unset)",
                           "(default false)",
                           "(default run)",
                           "--config PATH",
                           "--help"}) {
    EXPECT_THAT(*help, HasSubstr(part));
  }
}

TEST(OptionTable, HelpIsTheEssentialRowsUnlessAllIsAskedFor) {
  Everything e;
  e.table.essential({"data", "epochs"});
  const auto help = e.table.parse({"--help"});
  EXPECT_THAT(*help, AllOf(HasSubstr("--data"), HasSubstr("--epochs"), HasSubstr("--help all")));
  EXPECT_THAT(*help, HasSubstr("7 further options"));
  EXPECT_THAT(*help, Not(HasSubstr("--batch_size")));
  EXPECT_THAT(*e.table.parse({"--help", "all"}), HasSubstr("--batch_size"));
  EXPECT_EQ(e.table.help(), *e.table.parse({"-h", "all"}));
  EXPECT_THROW(e.table.essential({"nothing"}), std::logic_error);
}

TEST(OptionTable, NamesForCompletionAreALineEach) {
  Everything e;
  EXPECT_EQ(*e.table.parse({"--help", "names"}),
            "--config PATH\n--help all\n--data PATH\n--batch_size\n--learning_rate\n--momentum\n"
            "--epochs\n--nesterov true false\n--name\n--milestones\n--fruit apple  pear  quince\n");
}

TEST(OptionTable, NamesOfOtherTrainersAreTranslated) {
  Everything e;
  for (const auto& [theirs, ours] : {std::pair("--lr", "--learning_rate"),
                                     std::pair("--bs", "--batch_size"),
                                     std::pair("-e", "--epochs"),
                                     std::pair("--data-dir", "--data")})
    EXPECT_THAT(refusal([&] { e.table.parse({formatted("{}=1", theirs)}); }),
                HasSubstr(formatted("did you mean {}?", ours)));
}

TEST(OptionTable, HelpFitsAHundredColumns) {
  double field = 0;
  OptionTable table("dimred test", "x");
  table.add("a_name_that_is_longer_than_the_column",
            &field,
            "a text of many words that has to be wrapped because it is far longer than one line "
            "of a hundred columns can hold, and then some more");
  std::istringstream lines(table.help());
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  EXPECT_LE(longest, 100U);
  EXPECT_GT(longest, 90U);
}

TEST(OptionTable, HelpNamesPositionalArguments) {
  Everything e;
  e.table.positional("data");
  EXPECT_THAT(e.table.help(), HasSubstr("usage: dimred test DATA [options]\n"));
}

TEST(Nearest, FindsTypingErrorsAndPartsOfNames) {
  const std::vector<std::string> names = {"batch_size", "learning_rate", "residual_momentum", "to"};
  EXPECT_EQ(nearest("bacth_size", names), "batch_size");  // two letters swapped
  EXPECT_EQ(nearest("batchsize", names), "batch_size");   // one missing
  EXPECT_EQ(nearest("learning_rates", names), "learning_rate");
  EXPECT_EQ(nearest("lerning_rat", names), "learning_rate");  // two edits in eleven letters
  EXPECT_EQ(nearest("momentum", names), "residual_momentum");
  EXPECT_EQ(nearest("use_the_batch_size_of", names), "batch_size");
  EXPECT_EQ(nearest("zzzzzz", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest("batch_size", {}), std::nullopt);
  const std::string endless = std::string(std::size_t{10} << 20, 'e') + "batch_size";
  EXPECT_EQ(nearest(endless, names), std::nullopt);
}

}  // namespace
}  // namespace dimred
