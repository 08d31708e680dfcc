#include "options/options_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/options/options_fixture.h"

namespace dimred {
namespace {

using testing::ElementsAre;

TEST(TomlFile, ReadsEveryKind) {
  const TemporaryFolder folder;
  Everything e;
  e.table.read_file(folder.write("a.toml",
                                 "\xEF\xBB\xBF"
                                 R"(# a comment
batch_size = 1_000
learning_rate = 1   # a whole number is a number too
momentum = "none"
epochs = 0x10
nesterov = true
name = 'C:\x'
data = "a \"b\""
milestones = [1, 2.5, 3]
fruit = "apple"
)"));
  EXPECT_EQ(e.batch_size, 1000);
  EXPECT_EQ(e.learning_rate, 1);
  EXPECT_EQ(e.momentum, std::nullopt);
  EXPECT_EQ(e.epochs, 16);
  EXPECT_TRUE(e.nesterov);
  EXPECT_EQ(e.name, "C:\\x");
  EXPECT_EQ(e.data, std::filesystem::absolute("a \"b\""));
  EXPECT_THAT(e.milestones, ElementsAre(1, 2.5, 3));
  EXPECT_EQ(e.fruit, Fruit::apple);
}

// Letters of one to four bytes, some of which toml++ mistakes behind a line's last backslash.
TEST(TomlFile, KeepsLettersBeyondAscii) {
  const std::string letters =
      "a\xC2\xA7\xD4\x80\xE0\xA0\x80\xE3\x81\x84\xEF\xBF\xBD\xF0\x9F\x98\x80";
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml",
                                 "\"" + letters + "\" = '" + letters + "' # " + letters +
                                     "\nescaped = \"\\u00A7\\U0001F600\\\\U000D00A7\"\n"
                                     "continued = \"\"\"\\\n  \xC2\xA7\"\"\"\n");
  const auto entries = read_config_file(file);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name, letters);
  EXPECT_EQ(entries[0].text, letters);
  EXPECT_EQ(entries[1].text, "\xC2\xA7\xF0\x9F\x98\x80\\U000D00A7");
  EXPECT_EQ(entries[2].text, "\xC2\xA7");
}

TEST(ConfigFile, TakesEitherSignBetweenTheWordsOfAName) {
  const TemporaryFolder folder;
  for (const auto* name : {"a.toml", "a.txt"}) {
    Everything e;
    e.table.read_file(folder.write(name, "batch-size = 10\nlearning_rate = 2\n"));
    EXPECT_EQ(e.batch_size, 10);
    EXPECT_EQ(e.learning_rate, 2);
    const auto twice = folder.write(name, "batch-size = 10\nbatch_size = 11\n");
    EXPECT_EQ(refusal([&] { e.table.read_file(twice); }),
              twice.string() + ":2:1: batch_size: given twice");
  }
}

TEST(TomlFile, EmptyFileChangesNothing) {
  const TemporaryFolder folder;
  Everything e;
  e.table.read_file(folder.write("a.toml", ""));
  EXPECT_FALSE(e.table.was_set(&e.name));
}

TEST(TomlFile, EntriesComeInFileOrderWithTheirPlaces) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.toml", "zebra = 1\n\n  ape = [1, 2]\n");
  const auto entries = read_config_file(file);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "zebra");
  EXPECT_EQ(entries[0].source, file.string() + ":1:1");
  EXPECT_EQ(entries[1].text, "1,2");
  EXPECT_EQ(entries[1].source, file.string() + ":3:3");
}

TEST(TomlFile, DepthAndSizeAreBounded) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) {
    const auto file = folder.write("a.toml", text);
    return thrown<std::invalid_argument>([&] { read_config_file(file); });
  };
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  EXPECT_THAT(refusal(repeated("# 2345678\n", 30'000)),
              testing::HasSubstr("needs a readable file of at most 262144 bytes"));
  EXPECT_THAT(refusal("a" + repeated(".a", 100'000) + "=1"),
              testing::HasSubstr("at most 4000 dots"));
  EXPECT_THAT(refusal("a=" + repeated("[", 100'000)), testing::HasSubstr("not TOML"));
  EXPECT_THAT(refusal("a=" + repeated("{a=", 50'000)), testing::HasSubstr("not TOML"));
  EXPECT_EQ(refusal("a" + repeated(".a", 4000) + "=1"), "no exception");
}

TEST(KeyValueFile, RestOfTheLineIsTheValue) {
  const TemporaryFolder folder;
  Everything e;
  e.table.read_file(folder.write("job.conf",
                                 "\xEF\xBB\xBF# a comment\r\n"
                                 "\r\n"
                                 "batch_size=10\r\n"
                                 "  learning_rate = 0.05  \n"
                                 "nesterov=True\n"
                                 "momentum=None\n"
                                 "name=a=b # not a comment\n"
                                 "data=None\n"
                                 "milestones=5,6\n"
                                 "fruit=quince"));
  EXPECT_EQ(e.batch_size, 10);
  EXPECT_EQ(e.learning_rate, 0.05);
  EXPECT_TRUE(e.nesterov);
  EXPECT_EQ(e.momentum, std::nullopt);
  EXPECT_EQ(e.name, "a=b # not a comment");
  EXPECT_EQ(e.data, "");
  EXPECT_THAT(e.milestones, ElementsAre(5, 6));
  EXPECT_EQ(e.fruit, Fruit::quince);
}

TEST(KeyValueFile, FalseIsFalse) {
  const TemporaryFolder folder;
  Everything e;
  e.nesterov = true;
  e.table.read_file(folder.write("job.txt", "nesterov=False\n"));
  EXPECT_FALSE(e.nesterov);
}

/// Reads `from.table.to_toml()` into a fresh table.
void reread(const Everything& from, Everything& into) {
  const TemporaryFolder folder;
  into.table.read_file(folder.write("config.toml", from.table.to_toml()));
}

TEST(ToToml, RoundTripsAwkwardValues) {
  Everything e, back;
  e.batch_size = 9007199254740993;  // 2^53 + 1: would not survive a double
  e.learning_rate = std::nextafter(0.1, 1);
  e.momentum.reset();
  e.epochs = 7;
  e.nesterov = true;
  e.name = "tab\t \"quoted\" back\\slash #= \n\x01\x7F \xC3\xA9 [table]";
  e.data = "/a b/c'd\"e";
  e.milestones = {0.1, 1e-300, 30};
  e.fruit = Fruit::apple;
  reread(e, back);
  EXPECT_EQ(back.batch_size, e.batch_size);
  EXPECT_EQ(back.learning_rate, e.learning_rate);
  EXPECT_EQ(back.momentum, e.momentum);
  EXPECT_EQ(back.epochs, e.epochs);
  EXPECT_EQ(back.nesterov, e.nesterov);
  EXPECT_EQ(back.name, e.name);
  EXPECT_EQ(back.data, e.data);
  EXPECT_EQ(back.milestones, e.milestones);
  EXPECT_EQ(back.fruit, e.fruit);
}

TEST(ToToml, RoundTripsEmptyValues) {
  Everything e, back;
  e.name = "";
  e.milestones = {};
  reread(e, back);
  EXPECT_EQ(back.name, "");
  EXPECT_TRUE(back.milestones.empty());
  EXPECT_EQ(back.epochs, std::nullopt);
  EXPECT_FALSE(back.table.was_set(&back.epochs));  // unset by default: left out
}

TEST(ToToml, RoundTripsRandomDoublesBitForBit) {
  std::mt19937_64 random(2);
  std::vector<double> values, back;
  while (values.size() < 5000) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value) && std::abs(value) < 1e300) values.push_back(value);
  }
  values.push_back(-0.0);
  values.push_back(5e-324);
  OptionTable out("dimred test", ""), in("dimred test", "");
  out.add("values", &values, "");
  in.add("values", &back, "");
  const TemporaryFolder folder;
  in.read_file(folder.write("config.toml", out.to_toml()));
  ASSERT_EQ(back.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back[i]), std::bit_cast<std::uint64_t>(values[i]));
  }
}

TEST(ToToml, GroupsRowsUnderHeadings) {
  const Everything e;
  const auto text = e.table.to_toml();
  EXPECT_LT(text.find("# Data"), text.find("batch_size = 64\n"));
  EXPECT_LT(text.find("batch_size = 64\n"), text.find("# Training"));
  EXPECT_LT(text.find("# Training"), text.find("learning_rate = 0.1\n"));
  EXPECT_EQ(text.find("config ="), std::string::npos);
}

}  // namespace
}  // namespace dimred
