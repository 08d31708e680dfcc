#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/options_fixture.h"

namespace dimred {
namespace {

using testing::HasSubstr;

/// Every message names the key, then the rule, then what was received, on one line.
void expect_refusal(const std::string& text, const std::vector<std::string>& parts) {
  ASSERT_FALSE(text.empty()) << "accepted";
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  std::size_t from = 0;
  for (const auto& part : parts) {
    const auto at = text.find(part, from);
    EXPECT_NE(at, std::string::npos) << "no \"" << part << "\" in: " << text;
    if (at != std::string::npos) from = at + part.size();
  }
}

struct BadFlags {
  std::vector<std::string> arguments;
  std::vector<std::string> expected;
};
class RefusedFlags : public testing::TestWithParam<BadFlags> {};
TEST_P(RefusedFlags, SayKeyRuleAndValue) {
  Everything e;
  expect_refusal(refusal([&] { e.table.parse(GetParam().arguments); }), GetParam().expected);
}

const auto whole = "needs a whole number >= 1, received ";
const auto rate = "needs a number in (0, 10), received ";
INSTANTIATE_TEST_SUITE_P(
    Integers,
    RefusedFlags,
    testing::Values(BadFlags{{"--batch_size", "0"}, {"--batch_size: ", whole, "0"}},
                    BadFlags{{"--batch_size", "-3"}, {"--batch_size: ", whole, "-3"}},
                    BadFlags{{"--batch_size=64k"}, {"--batch_size: ", whole, "64k"}},
                    BadFlags{{"--batch_size=6.5"}, {"--batch_size: ", whole, "6.5"}},
                    BadFlags{{"--batch_size=1e3"}, {"--batch_size: ", whole, "1e3"}},
                    BadFlags{{"--batch_size=0x10"}, {"--batch_size: ", whole, "0x10"}},
                    BadFlags{{"--batch_size="}, {"--batch_size: ", whole, "\"\""}},
                    BadFlags{{"--batch_size= "}, {"--batch_size: ", whole}},
                    BadFlags{{"--batch_size=none"}, {"--batch_size: ", whole, "none"}},
                    BadFlags{{"--batch_size=1 2"}, {"--batch_size: ", whole, "1 2"}},
                    BadFlags{{"--batch_size=+-5"}, {"--batch_size: ", whole, "+-5"}},
                    BadFlags{{"--batch_size=9223372036854775808"},
                             {"--batch_size: needs a whole number <= 9223372036854775807, ",
                              "received 9223372036854775808"}},
                    BadFlags{{"--batch_size=1\n2"}, {"--batch_size: ", whole, "1\\n2"}},
                    BadFlags{{"--epochs=0"}, {"--epochs: ", "in [1, 1000], received 0"}},
                    BadFlags{{"--epochs=1001"}, {"--epochs: ", "in [1, 1000], received 1001"}}));
INSTANTIATE_TEST_SUITE_P(
    Numbers,
    RefusedFlags,
    testing::Values(BadFlags{{"--learning_rate", "0"}, {"--learning_rate: ", rate, "0"}},
                    BadFlags{{"--learning_rate", "10"}, {"--learning_rate: ", rate, "10"}},
                    BadFlags{{"--learning_rate", "nan"}, {"--learning_rate: ", rate, "nan"}},
                    BadFlags{{"--learning_rate", "inf"}, {"--learning_rate: ", rate, "inf"}},
                    BadFlags{{"--learning_rate", "-inf"}, {"--learning_rate: ", rate, "-inf"}},
                    BadFlags{{"--learning_rate", "1e999"}, {"--learning_rate: ", rate, "1e999"}},
                    BadFlags{{"--learning_rate", "0,1"}, {"--learning_rate: ", rate, "0,1"}},
                    BadFlags{{"--learning_rate", "fast"}, {"--learning_rate: ", rate, "fast"}},
                    BadFlags{{"--learning_rate="}, {"--learning_rate: ", rate, "\"\""}},
                    BadFlags{{"--learning_rate", "0.1.2"}, {"--learning_rate: ", rate, "0.1.2"}},
                    BadFlags{{"--momentum", "1"}, {"--momentum: ", "in [0, 1), received 1"}},
                    BadFlags{{"--momentum", "-0.1"}, {"--momentum: ", "in [0, 1), received -0.1"}},
                    BadFlags{{"--milestones", "1,,2"}, {"--milestones: ", "numbers >= 0", "1,,2"}},
                    BadFlags{{"--milestones", "1,"}, {"--milestones: ", "numbers >= 0", "1,"}},
                    BadFlags{{"--milestones", "1,-2"}, {"--milestones: ", ">= 0", "1,-2"}},
                    BadFlags{{"--milestones", "1;2"}, {"--milestones: ", ">= 0", "1;2"}},
                    BadFlags{{"--milestones", "nan"}, {"--milestones: ", ">= 0", "nan"}}));
INSTANTIATE_TEST_SUITE_P(
    Others,
    RefusedFlags,
    testing::Values(
        BadFlags{{"--nesterov=maybe"}, {"--nesterov: ", "needs true or false, received maybe"}},
        BadFlags{{"--nesterov", "yes"}, {"--nesterov: ", "needs true or false, received yes"}},
        BadFlags{{"--nesterov="}, {"--nesterov: ", "needs true or false, received \"\""}},
        BadFlags{{"--nesterov=2"}, {"--nesterov: ", "needs true or false, received 2"}},
        BadFlags{{"--fruit", "plum"}, {"--fruit: ", "needs one of apple | pear | quince", "plum"}},
        BadFlags{{"--fruit", "Apple"}, {"--fruit: ", "needs one of", "Apple"}},
        BadFlags{{"--fruit="}, {"--fruit: ", "needs one of", "received \"\""}},
        BadFlags{{"--name", "\xFF"}, {"--name: ", "needs UTF-8 text, received "}},
        BadFlags{{"--data", "a\x80z"}, {"--data: ", "needs UTF-8 text, received "}},
        BadFlags{{"--name", "\xF3\x90\x82\xA7"},
                 {"--name: ", "needs text without the unassigned characters U+D0000"}}));
INSTANTIATE_TEST_SUITE_P(
    Names,
    RefusedFlags,
    testing::Values(
        BadFlags{{"--bacth_size", "3"}, {"--bacth_size: unknown option", "mean --batch_size?"}},
        BadFlags{{"--batch-sizes=3"}, {"--batch-sizes: unknown option", "mean --batch_size?"}},
        BadFlags{{"--conf", "x"}, {"--conf: unknown option; did you mean --config?"}},
        BadFlags{{"--hepl"}, {"--hepl: unknown option; did you mean --help?"}},
        BadFlags{{"--no_nesterov"}, {"--no_nesterov: unknown option; did you mean --nesterov?"}},
        BadFlags{{"--zzzzzzzz"}, {"--zzzzzzzz: unknown option; see dimred test --help"}},
        BadFlags{{"-b", "3"}, {"-b: unknown option"}},
        BadFlags{{"---batch_size", "3"}, {"---batch_size: unknown option"}},
        BadFlags{{"-batch_size", "3"}, {"-batch_size: unknown option", "mean --batch_size?"}},
        BadFlags{{"--"}, {"--: unknown option"}},
        BadFlags{{"--=3"}, {"--: unknown option"}},
        BadFlags{{"stray"}, {"stray: unexpected argument; see dimred test --help"}},
        BadFlags{{"batch_size"}, {"batch_size: unexpected argument; did you mean --batch_size?"}},
        BadFlags{{""}, {"unexpected argument"}},
        BadFlags{{"--batch_size"}, {"--batch_size: needs a value"}},
        BadFlags{{"--name", "--epochs", "3"}, {"--name: needs a value"}},
        BadFlags{{"--epochs", "3", "--epochs", "4"}, {"--epochs: given twice", "3 and 4"}},
        BadFlags{{"--batch_size=3", "--batch-size=3"}, {"--batch_size: given twice"}},
        BadFlags{{"--nesterov", "--nesterov", "false"}, {"--nesterov: given twice"}},
        BadFlags{{"--config", "/nowhere/x.toml"}, {"--config: needs a readable file", "x.toml"}},
        BadFlags{{"--config", "/"},
                 {"--config: needs a readable file of at most 262144 bytes, received /"}},
        BadFlags{{"--config=a.toml", "--config=b.toml"}, {"--config: given twice"}}));

struct BadFile {
  std::string text;
  std::vector<std::string> expected;  // after "file:"
};
class RefusedToml : public testing::TestWithParam<BadFile> {};
TEST_P(RefusedToml, SaysPlaceKeyRuleAndValue) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.toml", GetParam().text);
  auto expected = GetParam().expected;
  expected.insert(expected.begin(), file.string() + ":");
  Everything e;
  expect_refusal(refusal([&] { e.table.parse({"--config", file.string()}); }), expected);
}
INSTANTIATE_TEST_SUITE_P(
    Bad,
    RefusedToml,
    testing::Values(
        BadFile{"\nbach_size = 3\n", {"2:1: bach_size: unknown key; did you mean batch_size?"}},
        BadFile{"  zzzzzzz = 3\n", {"1:3: zzzzzzz: unknown key; see dimred test --help"}},
        BadFile{"batch-sizes = 3\n", {"1:1: batch_sizes: unknown key; did you mean batch_size?"}},
        BadFile{"config = \"x\"\n", {"1:1: config: unknown key"}},
        BadFile{"batch_size = \"64\"\n",
                {"1:1: batch_size: ", "needs a whole number >= 1, received the text 64"}},
        BadFile{"batch_size = 64.0\n",
                {"1:1: batch_size: ", "whole number >= 1, received the number 64"}},
        BadFile{"batch_size = true\n", {"1:1: batch_size: ", "whole number >= 1, received true"}},
        BadFile{"batch_size = 0\n", {"1:1: batch_size: ", "whole number >= 1, received 0"}},
        BadFile{"batch_size = 64k\n", {"1:", "not TOML"}},
        BadFile{"batch_size = 99999999999999999999\n", {"1:", "not TOML"}},
        BadFile{"name = 3\n", {"1:1: name: ", "quoted text, received the whole number 3"}},
        BadFile{"name = run\n", {"1:", "not TOML"}},
        BadFile{"data = [\"a\"]\n", {"1:1: data: ", "needs a quoted text, received a"}},
        BadFile{"nesterov = 1\n",
                {"1:1: nesterov: ", "true or false, received the whole number 1"}},
        BadFile{"nesterov = \"true\"\n", {"1:1: nesterov: ", "received the text true"}},
        BadFile{"learning_rate = nan\n", {"1:1: learning_rate: ", rate, "nan"}},
        BadFile{"learning_rate = +inf\n", {"1:1: learning_rate: ", rate, "inf"}},
        BadFile{"learning_rate = \"0.1\"\n", {"1:1: learning_rate: ", rate, "the text 0.1"}},
        BadFile{"learning_rate = 1979-05-27\n", {"learning_rate: ", rate, "a date or time"}},
        BadFile{"momentum = \"null\"\n", {"momentum: ", "a number in [0, 1)", "the text null"}},
        BadFile{"milestones = 3\n", {"milestones: ", "an array of numbers", "whole number 3"}},
        BadFile{"milestones = [1, \"b\"]\n", {"milestones: ", "an array of numbers", "1,b"}},
        BadFile{"milestones = [1, -2]\n", {"milestones: ", "numbers >= 0", "1,-2"}},
        BadFile{"fruit = \"plum\"\n", {"fruit: ", "needs one of apple | pear | quince", "plum"}},
        BadFile{"fruit = 1\n", {"fruit: ", "received the whole number 1"}},
        BadFile{"[training]\nepochs = 3\n", {"1:", "training: unknown key"}},
        BadFile{"[name]\nepochs = 3\n", {"name: ", "needs a quoted text, received a table"}},
        BadFile{"data.x = \"a\"\n", {"1:", "data: ", "received a table"}},
        BadFile{"epochs = 3\nepochs = 4\n", {"2:", "not TOML", "epochs"}},
        BadFile{"name = \"open\n", {"1:", "not TOML"}},
        BadFile{"= 3\n", {"1:", "not TOML"}},
        BadFile{"epochs = 3\nname = \"\xFF\"\n",
                {"2:9: the file is not TOML, because its text is not UTF-8"}},
        BadFile{"epochs = 3\n[,[v]]\n", {"2:", "not TOML"}},
        BadFile{"epochs = 3\n  \xC2\xA7 = 4\n", {"2:3: the file is not TOML", "'\xC2\xA7'"}},
        BadFile{"name = \"\xF3\x90\x82\xA7\"\n",
                {" needs text without the unassigned Unicode characters"}},
        BadFile{"name = \"\\U000D00A7\"\n",
                {" needs text without the unassigned Unicode characters"}}));

class RefusedKeyValues : public testing::TestWithParam<BadFile> {};
TEST_P(RefusedKeyValues, SaysPlaceKeyRuleAndValue) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.conf", GetParam().text);
  auto expected = GetParam().expected;
  expected.insert(expected.begin(), file.string() + ":");
  Everything e;
  expect_refusal(refusal([&] { e.table.read_file(file); }), expected);
}
INSTANTIATE_TEST_SUITE_P(
    Bad,
    RefusedKeyValues,
    testing::Values(
        BadFile{"# c\n\n batch_sise=3\n", {"3:2: batch_sise: unknown key", "batch_size?"}},
        BadFile{"batch_size\n", {"1:1: ", "needs a line key=value, received batch_size"}},
        BadFile{"=3\n", {"1:1: ", "needs a line key=value, received =3"}},
        BadFile{"batch_size=\n", {"1:1: batch_size: ", whole, "\"\""}},
        BadFile{"batch_size=None\n", {"1:1: batch_size: ", whole, "None"}},
        BadFile{"batch_size=3 # three\n", {"1:1: batch_size: ", whole, "3 # three"}},
        BadFile{"learning_rate=True\n", {"1:1: learning_rate: ", rate, "True"}},
        BadFile{"epochs=3\nepochs=4\n", {"2:1: epochs: given twice"}},
        BadFile{"[data]\n", {"1:1: ", "needs a line key=value, received [data]"}}));

TEST(BadInput, AnOptionAndItsOtherNameAreGivenTwice) {
  const TemporaryFolder folder;
  std::int64_t ahead = 0;
  OptionTable table("test", "of names");
  table.group("Data");
  table.add("prefetch", &ahead, "batches ahead").alias("prefetch_buffer_size");
  const auto file = folder.write("run.cfg", "prefetch=2\nprefetch_buffer_size=8\n");
  EXPECT_THAT(refusal([&] { table.read_file(file); }),
              HasSubstr("2:1: prefetch_buffer_size: given twice (another name of prefetch)"));
  EXPECT_THAT(refusal([&] { table.read_words("prefetch=2 prefetch_buffer_size=8", "words", {}); }),
              HasSubstr("words: prefetch_buffer_size: given twice"));
}

TEST(BadInput, FileIsNotReadWhenAFlagIsUnknown) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.toml", "batch_size = 3\n");
  Everything e;
  EXPECT_THAT(refusal([&] {
                e.table.parse({"--config", file.string(), "--nonsense_flag"});
              }),
              HasSubstr("--nonsense_flag"));
  EXPECT_EQ(e.batch_size, 64);
}

}  // namespace
}  // namespace dimred
