#include "options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "options/effects.h"
#include "options/option_help.h"
#include "options/options_file.h"
#include "support/errors.h"
#include "tests/options/options_fixture.h"

namespace dimred {
namespace {

using Arguments = std::vector<std::string>;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST(OptionTable, KeepsDefaultsWithoutArguments) {
  Everything e;
  EXPECT_EQ(requested_help(e.table, {}), std::nullopt);
  e.table.parse({});
  EXPECT_EQ(e.batch_size, 64);
  EXPECT_EQ(e.momentum, 0.9);
  EXPECT_FALSE(e.table.was_set(&e.batch_size));
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
  EXPECT_EQ(e.table.at(&e.fruit).origin, OptionOrigin::flag);
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
  e.table.of(&e.data).positional();
  e.table.parse({"--nesterov", "folder"});
  EXPECT_TRUE(e.nesterov);
  EXPECT_EQ(e.data, std::filesystem::absolute("folder"));
}

TEST(OptionTable, FillsPositionalRowsInOrder) {
  Everything e;
  e.table.of(&e.data).positional();
  e.table.of(&e.name).positional();
  e.table.parse({"first", "--batch_size", "3", "second"});
  EXPECT_EQ(e.data, std::filesystem::absolute("first"));
  EXPECT_EQ(e.name, "second");
}

TEST(OptionTable, PositionalRowGivenAsFlagIsTaken) {
  Everything e;
  e.table.of(&e.data).positional();
  e.table.of(&e.name).positional();
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
  EXPECT_EQ(into.table.adopt(read_config_file(file)),
            std::vector<std::string>{"batch_size = 7 overrides 5"});
  EXPECT_EQ(into.batch_size, 7);
  EXPECT_EQ(into.name, "run");  // it does not persist
}

TEST(OptionTable, FlagOverridesFileOverridesDefault) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", "batch_size = 32\nlearning_rate = 0.5\n");
  Everything e;
  e.table.parse({"--batch_size", "16", "--config", file.string()});
  EXPECT_EQ(e.batch_size, 16);
  EXPECT_EQ(e.learning_rate, 0.5);
  EXPECT_EQ(e.name, "run");
  EXPECT_EQ(e.table.at(&e.batch_size).origin, OptionOrigin::flag);
  EXPECT_EQ(e.table.at(&e.learning_rate).origin, OptionOrigin::file);
  EXPECT_EQ(e.table.at(&e.name).origin, OptionOrigin::default_value);
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
  double field = 0;
  EXPECT_THROW((void)e.table.was_set(&field), std::logic_error);
  EXPECT_THROW(e.table.add("epochs", &field, ""), std::logic_error);
}

TEST(OptionTable, HelpShowsGroupsRangesChoicesAndDefaults) {
  Everything e;
  e.learning_rate = 5;  // the default is what the field held when it was added
  const auto help = requested_help(e.table, {"--batch_size", "no", "--help"});
  ASSERT_TRUE(help.has_value());
  for (const auto* part : {"dimred test: tries every kind of option",
                           "\nData:\n",
                           "\nTraining:\n",
                           "--batch_size N",
                           "(>= 1; default 64)",
                           "(in (0, 10); default 0.1)",
                           "(apple | pear | quince; default pear)",
                           "(in [1, 1000]; default unset)",
                           "(>= 0; default 1,2.5)",
                           "(default false)",
                           "(default run)",
                           "--config PATH",
                           "--help"}) {
    EXPECT_THAT(*help, HasSubstr(part));
  }
}

TEST(OptionTable, HelpIsTheEssentialRowsUnlessAllIsAskedFor) {
  Everything e;
  e.table.of(&e.data).essential();
  e.table.of(&e.epochs).essential();
  const auto help = requested_help(e.table, {"--help"});
  EXPECT_THAT(*help, AllOf(HasSubstr("--data"), HasSubstr("--epochs"), HasSubstr("--help all")));
  EXPECT_THAT(*help, HasSubstr("7 further options"));
  EXPECT_THAT(*help, Not(HasSubstr("--batch_size")));
  EXPECT_THAT(*requested_help(e.table, {"--help", "all"}), HasSubstr("--batch_size"));
  EXPECT_EQ(help_of(e.table), *requested_help(e.table, {"-h", "all"}));
}

TEST(OptionTable, NamesForCompletionAreALineEach) {
  Everything e;
  EXPECT_EQ(*requested_help(e.table, {"--help", "names"}),
            "--config PATH\n--help all\n--data PATH\n--batch_size\n--learning_rate\n--momentum\n"
            "--epochs\n--nesterov true false\n--name\n--milestones\n--fruit apple pear quince\n");
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
  std::istringstream lines(help_of(table));
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  EXPECT_LE(longest, 100U);
  EXPECT_GT(longest, 90U);
}

TEST(OptionTable, HelpNamesPositionalArguments) {
  Everything e;
  e.table.of(&e.data).positional();
  EXPECT_THAT(help_of(e.table), HasSubstr("usage: dimred test DATA [options]\n"));
  e.table.rest("IMAGE...", [](const std::string&) {});
  EXPECT_THAT(help_of(e.table), HasSubstr("usage: dimred test DATA IMAGE... [options]\n"));
}

TEST(OptionTable, HelpSaysADefaultInWordsWhereTheRowDoes) {
  std::filesystem::path cache;
  double rate = 0.1;
  OptionTable table("dimred test", "x");
  table.add("cache", &cache, "folder for copies (default: ~/.cache (of the user))");
  table.add("rate", &rate, "rate (default: the preset's) of a step", positive());
  EXPECT_THAT(help_of(table), HasSubstr("folder for copies (default ~/.cache (of the user))\n"));
  EXPECT_THAT(help_of(table),
              HasSubstr("rate (default: the preset's) of a step (> 0; default 0.1)\n"));
}

TEST(OptionTable, AWordBehindHelpThatNamesNoLevelIsSaid) {
  for (const auto& [words, said] :
       std::vector<std::pair<Arguments, bool>>{{{"--help", "al"}, true},
                                               {{"-h", "data"}, true},
                                               {{"--help"}, false},
                                               {{"--help", "all"}, false},
                                               {{"--help", "--epochs"}, false}}) {
    Everything e;
    EXPECT_THAT(*requested_help(e.table, words), HasSubstr("usage: dimred test"));
    if (!said) {
      EXPECT_THAT(e.table.notices(), testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(e.table.notices(),
                testing::ElementsAre(formatted("--help: needs all, json, names or no word after "
                                               "it, received {}; --help all lists every option",
                                               words[1])));
  }
}

/// A schedule with options of its kinds, a preset that decides some, and a row of each property.
struct Conditional {
  std::string schedule = "linear", preset = "slow";
  double power = 1, factor = 0.1, warmup = 0, rate = 0.1;
  std::filesystem::path matrix;
  std::int64_t seed = 0, threads = 0;
  OptionTable table{"dimred train", "rows that depend on others"};

  Conditional() {
    table.add_choice("schedule",
                     &schedule,
                     "shape",
                     {{"linear", std::string("linear")},
                      {"step", std::string("step")},
                      {"polynomial", std::string("polynomial")}});
    table.add("power", &power, "of polynomial").needs(is("schedule", {"polynomial"}));
    table.add("warmup", &warmup, "epochs (default: a twentieth of the run)");
    table.add("factor", &factor, "of step").needs(is("schedule", {"step"}) || above("warmup"));
    table.add("preset", &preset, "slow or fast");
    table.choose_defaults("preset", [this] { rate = preset == "fast" ? 0.5 : 0.1; });
    table.add("rate", &rate, "the preset's").chosen_by("preset").needs(above("power", 1));
    table.add("matrix", &matrix, "given");
    table.add("seed", &seed, "of one made here").needs_in_files(!has_value("matrix"));
    table.add("threads", &threads, "of the machine").may_change_unless(is("preset", {"fast"}));
  }
  std::string refused(const Arguments& arguments) {
    table.parse(arguments);
    return refusal([&] { require_effects(table); });
  }
};

TEST(Condition, OfAFlagThatDoesNotHoldIsNamed) {
  EXPECT_EQ(Conditional().refused({"--power=2"}),
            "[train] power has no effect: it needs schedule = polynomial");
  EXPECT_EQ(Conditional().refused({"--factor=.2"}),
            "[train] factor has no effect: it needs schedule = step or warmup > 0");
  EXPECT_EQ(Conditional().refused({"--seed=2", "--matrix=/x"}),
            "[train] seed has no effect: it needs matrix to be unset");
  EXPECT_EQ(Conditional().refused({"--power=2", "--schedule=polynomial"}), "");
  EXPECT_EQ(Conditional().refused({"--factor=.2", "--warmup=1"}), "");
  EXPECT_EQ(Conditional().refused({"--power=1"}), "");  // the default
}

TEST(Condition, IsNotMetByARowThatHasItselfNoEffect) {
  Conditional c;
  c.power = 3;
  EXPECT_THAT(c.refused({"--rate=.2"}), HasSubstr("rate has no effect: it needs power > 1"));
  EXPECT_EQ(Conditional().refused({"--schedule=polynomial", "--power=3", "--rate=.2"}), "");
}

TEST(Condition, CountsForAFileWhereTheRowSaysSo) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& text) { return folder.write("a.toml", text).string(); };
  EXPECT_EQ(Conditional().refused({"--config", file("power = 2.0\n")}), "");
  EXPECT_THAT(Conditional().refused({"--config", file("seed = 2\n"), "--matrix=/x"}),
              HasSubstr("seed has no effect"));
  EXPECT_EQ(Conditional().refused({"--config", file("seed = 0\n"), "--matrix=/x"}), "");
}

TEST(Condition, IsSaidInWordsAndByTheRowsThatDecideIt) {
  const Conditional c;
  EXPECT_EQ(condition_text(!is("schedule", {"piecewise", "step"}) || above("warmup")),
            "warmup > 0 or (schedule other than piecewise or step)");
  EXPECT_EQ(condition_text(!is("schedule", {"step"}) || above("warmup") || above("b", 1)),
            "warmup > 0, b > 1 or schedule other than step");
  EXPECT_EQ(condition_text(is_on("flip") && (above("a") || is_on("b"))), "flip and (a > 0 or b)");
  EXPECT_EQ(condition_text(is("a", {"x"}) || (is("a", {"y"}) && above("b")), "--"),
            "--a = x or (--a = y and --b > 0)");
  EXPECT_EQ(condition_text(above("a") || above("b")), "a or b > 0");
  EXPECT_EQ(condition_text(is("a", {"x"}) || is("b", {"x"})), "a or b = x");
  EXPECT_EQ(condition_text(is_on("a") && is("b", {"x", "y", "z"})), "a and b = x, y or z");
  EXPECT_EQ(condition_text(!(is_on("a") && has_value("b"))), "a = false or b to be unset");
  EXPECT_EQ(condition_text(!(above("a", 2) || given("b"))), "a <= 2 and b to be unset");
  EXPECT_THAT(deciding_rows(above("rate") && is("schedule", {"step"}), c.table),
              ElementsAre("rate", "preset", "power", "schedule"));
  EXPECT_THROW(holds(is("nothing", {"x"}), c.table), std::logic_error);
}

TEST(OptionTable, APresetDecidesTheDefaultsOfWhatNobodySets) {
  Conditional c;
  c.table.parse({"--preset=fast"});
  EXPECT_EQ(c.rate, 0.5);
  EXPECT_EQ(c.table.at(&c.rate).default_value, "0.5");
  c.table.parse({"--rate=.2"});
  EXPECT_EQ(c.rate, 0.2);
  EXPECT_EQ(c.table.at(&c.rate).default_value, "0.5");
  // A preset's constant that is given is meant, at the preset's value, too.
  EXPECT_THAT(Conditional().refused({"--preset=fast", "--rate=.5"}), HasSubstr("no effect"));
}

TEST(OptionTable, SaysAllThatItKnowsAsJson) {
  Conditional c;
  const auto said = nlohmann::json::parse(
      *requested_help(c.table, {"--preset=fast", "--matrix=/x", "--help", "json"}));
  EXPECT_EQ(said.at("command"), "dimred train");
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : said.at("options")) rows[row.at("name")] = row;
  EXPECT_EQ(rows.size(), c.table.rows().size());
  EXPECT_EQ(rows["schedule"].at("choices"), nlohmann::json({"linear", "step", "polynomial"}));
  EXPECT_EQ(rows["schedule"].at("needs"), nullptr);
  EXPECT_EQ(rows["power"].at("needs"),
            nlohmann::json({{"text", "schedule = polynomial"}, {"depends_on", {"schedule"}}}));
  EXPECT_EQ(rows["power"].at("acts"), false);
  EXPECT_EQ(rows["warmup"].at("acts"), true);
  EXPECT_EQ(rows["seed"].at("acts"), false);
  EXPECT_EQ(rows["rate"].at("default"), 0.5);
  EXPECT_EQ(rows["warmup"].at("default"), nullptr);  // its help says it in words
  EXPECT_EQ(rows["rate"].at("chosen_by"), "preset");
  EXPECT_EQ(rows["matrix"].at("value"), "/x");
  EXPECT_EQ(rows["threads"].at("resume"), "fixed");
  EXPECT_EQ(rows["threads"].at("type"), "integer");
  EXPECT_THAT(refusal([&] {
                requested_help(c.table, {"--power=x", "--help", "json"});
              }),
              HasSubstr("--power: needs a number"));
}

/// A table as a run has it: its config.toml holds what followed from other options.
struct Recorded {
  std::string preset = "slow";
  double rate = 0;
  std::int64_t epochs = 3, length = 0;
  std::optional<std::int64_t> batch, all;
  OptionTable table{"dimred train", "trains"};

  Recorded() {
    table.add("preset", &preset, "slow or fast");
    table.choose_defaults("preset", [this] { rate = preset == "fast" ? 0.5 : 0.1; });
    table.add("rate", &rate, "the preset's").chosen_by("preset");
    table.add("epochs", &epochs, "passes");
    table.add("length", &length, "of the schedule; 0: epochs")
        .follows({"epochs"}, [this](const auto&) { return formatted("{}", epochs); });
    table.add("batch", &batch, "of a rank");
    table.add("all", &all, "of all ranks").follows({"batch"});
  }
  /// Reads the config.toml of a run with these flags, which has resolved `length` and `all`.
  Recorded& repeat(const Arguments& first, const Arguments& later, bool by_hand = false) {
    Recorded run;
    run.table.parse(first);
    if (run.length == 0) run.length = run.epochs;
    run.batch = run.batch.value_or(16);
    run.all = 2 * *run.batch;
    auto text = run.table.to_toml();
    if (by_hand) text = "# mine\n" + text.substr(text.find('\n'));
    const TemporaryFolder folder;
    put_file(folder / "config.toml", text);
    Arguments arguments{"--config", (folder / "config.toml").string()};
    arguments.insert(arguments.end(), later.begin(), later.end());
    table.parse(arguments);
    return *this;
  }
};

TEST(RecordedOption, ThatFollowedFromAReplacedOneGoes) {
  Recorded same;
  EXPECT_THAT(same.repeat({"--preset=fast"}, {"--preset=fast"}).table.notices(), IsEmpty());
  EXPECT_EQ(std::tuple(same.rate, same.length, same.all), std::tuple(0.5, 3, 32));

  Recorded other;
  other.repeat({"--preset=fast"}, {"--preset=slow", "--epochs=6", "--batch=32"});
  EXPECT_EQ(std::tuple(other.rate, other.length, other.all), std::tuple(0.1, 0, std::nullopt));
  EXPECT_THAT(other.table.notices(),
              ElementsAre(HasSubstr("so these values of the file have no effect: all"),
                          HasSubstr("so these values of the file have no effect: length"),
                          AllOf(StartsWith("--preset replaces preset = \"fast\" of "),
                                EndsWith("config.toml, so these values of the file have no effect: "
                                         "rate"))));
}

TEST(RecordedOption, ThatWasChosenStays) {
  Recorded chosen;
  chosen.repeat({"--preset=fast", "--rate=0.2", "--length=9"}, {"--preset=slow", "--epochs=6"});
  EXPECT_EQ(std::tuple(chosen.rate, chosen.length), std::tuple(0.2, 9));
  EXPECT_THAT(chosen.table.notices(), IsEmpty());
  Recorded given;
  given.repeat({"--preset=fast"}, {"--preset=slow", "--rate=0.5", "--epochs=6", "--length=3"});
  EXPECT_EQ(std::tuple(given.rate, given.length), std::tuple(0.5, 3));
  Recorded by_hand;  // a file that a person wrote says what it means
  by_hand.repeat({"--preset=fast"}, {"--preset=slow", "--epochs=6"}, true);
  EXPECT_EQ(std::tuple(by_hand.rate, by_hand.length), std::tuple(0.5, 3));
}

/// A table whose options `speed` and `engine` are gone.
OptionTable table_with_removed_options(std::int64_t* size) {
  OptionTable table("dimred stage1", "trains");
  table.add("size", size, "of it");
  table.removed("speed", "0.5", "8b694755", "leave it out");
  table.removed("engine", "false", "8b694755", "leave it out");
  return table;
}

TEST(RemovedOption, ItsOldDefaultIsPassedOverWithALine) {
  std::int64_t size = 1;
  auto table = table_with_removed_options(&size);
  table.parse({"--speed", "0.50", "--engine", "False", "--size=3"});
  EXPECT_EQ(size, 3);
  EXPECT_THAT(
      table.notices(),
      ElementsAre("--speed: dimred no longer has this option; the old default has no effect",
                  "--engine: dimred no longer has this option; the old default has no effect"));
  auto of_a_file = table_with_removed_options(&size);
  of_a_file.read_entries({{.name = "engine", .text = "false", .source = "run.toml:3"}});
  EXPECT_THAT(of_a_file.notices(),
              ElementsAre(HasSubstr("run.toml:3: engine: dimred no longer has this option")));
}

TEST(RemovedOption, AnotherValueNamesTheLastRevision) {
  std::int64_t size = 1;
  for (const Arguments& given :
       {Arguments{"--speed=1"}, Arguments{"--engine"}, Arguments{"--speed"}}) {
    auto table = table_with_removed_options(&size);
    EXPECT_THAT(refusal([&] { table.parse(given); }),
                AllOf(HasSubstr("dimred no longer has this option, received"),
                      HasSubstr("the last revision with this option is 8b694755; leave it out")));
  }
  auto table = table_with_removed_options(&size);
  EXPECT_EQ(refusal([&] {
              table.read_entries({{.name = "speed", .text = "2", .source = "run.toml:4"}});
            }),
            "run.toml:4: speed: dimred no longer has this option, received 2; the last revision "
            "with this option is 8b694755; leave it out");
  EXPECT_EQ(help_of(table, HelpLevel::json).find("speed"), std::string::npos);
}

TEST(RemovedOption, ThatPersistedIsRefusedWhereARunIsAdopted) {
  std::int64_t size = 1;
  OptionTable table("dimred stage1", "");
  table.group("Data", {.persists = true});
  table.add("size", &size, "");
  table.removed("noise", "0", "8b694755", "leave it out");
  table.group("Run");
  table.removed("half", "false", "8b694755", "leave it out");
  const auto entry = [](std::string name, std::string text) {
    return ConfigEntry{.name = std::move(name), .text = std::move(text), .source = "run.toml:2"};
  };
  table.adopt({entry("noise", "0.0"), entry("half", "true"), entry("size", "4")});
  EXPECT_EQ(size, 4);
  EXPECT_THAT(table.notices(), ::testing::IsEmpty());
  EXPECT_EQ(refusal([&] { table.adopt({entry("noise", "0.2")}); }),
            "run.toml:2: noise: dimred no longer has this option, received 0.2; the last revision "
            "with this option is 8b694755; leave it out");
}

TEST(RemovedChoice, IsRefusedByFlagAndFileAndNotShown) {
  enum class Start { last, mean } start = Start::last;
  OptionTable table("dimred stage2", "");
  table.add_choice("start", &start, "", {{"last", Start::last}, {"mean", Start::mean}})
      .removed_choice("soup", "8b694755", "take mean");
  const std::string line =
      "start: dimred no longer has the choice soup; the last revision with this choice is "
      "8b694755; take mean";
  EXPECT_EQ(refusal([&] { table.parse({"--start", "soup"}); }), "--" + line);
  const ConfigEntry entry{.name = "start", .text = "soup", .source = "run.toml:4"};
  EXPECT_EQ(refusal([&] { table.read_entries({entry}); }), "run.toml:4: " + line);
  EXPECT_EQ(refusal([&] { table.set(&start, "soup"); }), line);
  EXPECT_EQ(help_of(table).find("soup"), std::string::npos);
  table.parse({"--start=mean"});
  EXPECT_EQ(start, Start::mean);
}

}  // namespace
}  // namespace dimred
