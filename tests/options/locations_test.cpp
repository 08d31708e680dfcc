#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/options.h"
#include "options/options_file.h"
#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Fields {
  std::filesystem::path data;
  std::filesystem::path output;
  std::string model = "convnet";
  std::int64_t epochs = 1;
};

OptionTable table_of(Fields& fields) {
  OptionTable table("test", "of locations");
  table.group("Data", {.persists = true});
  table.add("data", &fields.data, "data");
  table.add("output", &fields.output, "output");
  table.add("model", &fields.model, "model");
  table.add("epochs", &fields.epochs, "epochs", at_least(1));
  return table;
}

/// Paths for what it is asked, in order.
struct Located {
  std::vector<std::string> asked;
  std::vector<std::int64_t> epochs;  // at each time
  explicit Located(const std::string& root) {
    set_locate([this, root](const Option& row,
                            const OptionTable& table) -> std::optional<std::filesystem::path> {
      asked.push_back(row.name);
      epochs.push_back(std::stoll(table.rows().back().show()));
      if (row.name == "model") return {};
      return root + "/" + row.name;
    });
  }
  ~Located() { set_locate({}); }
};

TEST(Locations, AUrlBecomesAPathAndStaysAUrlInTheConfig) {
  const TemporaryFolder folder;
  Located located("/cache1");
  const auto file = folder.write("c.toml", "data = \"s3://u:secret@bucket1/old\"\nepochs = 3\n");
  Fields fields;
  auto table = table_of(fields);
  table.parse({"--config",
               file.string(),
               "--data=s3://u:secret@bucket1/x",
               "--model=ab://c",
               "--output=y"});
  EXPECT_EQ(fields.data, "/cache1/data");
  EXPECT_EQ(fields.model, "ab://c");
  EXPECT_TRUE(fields.output.is_absolute());
  // The file's data, which the flag overrides, is not downloaded.
  EXPECT_THAT(located.asked, testing::ElementsAre("data", "model"));
  EXPECT_THAT(table.to_toml(), HasSubstr("data = \"s3://bucket1/x\"\n"));
  EXPECT_THAT(table.to_toml(), Not(HasSubstr("secret")));
}

TEST(Locations, AreAskedForWhenAllOptionsAreRight) {
  Located located("/cache2");
  Fields fields;
  auto table = table_of(fields);
  EXPECT_THROW(table.parse({"--data=s3://bucket2/x", "--epochs=0"}), std::invalid_argument);
  EXPECT_TRUE(located.asked.empty());
}

TEST(Locations, AnAdoptedFileMayHoldThem) {
  const TemporaryFolder folder;
  Located located("/cache3");
  Fields fields;
  auto table = table_of(fields);
  table.parse({});
  table.adopt(read_config_file(folder.write("c.toml", "data = \"s3://bucket3/x\"\n")));
  EXPECT_EQ(fields.data, "/cache3/data");
}

/// The part of the file that says how they are located has been read by then.
TEST(Locations, OfARowThatWaitsAreAskedForAfterTheAdoption) {
  const TemporaryFolder folder;
  Located located("/cache5");
  Fields fields;
  auto table = table_of(fields);
  table.of(&fields.data).locate_after_adoption();
  table.parse({"--data=s3://bucket5/x", "--output=s3://bucket5/y"});
  EXPECT_THAT(located.asked, testing::ElementsAre("output"));
  const auto file = folder.write("c.toml", "data = \"s3://bucket5/old\"\nepochs = 3\n");
  const auto overridden = table.adopt(read_config_file(file));
  EXPECT_THAT(located.asked, testing::ElementsAre("output", "data"));
  EXPECT_THAT(located.epochs, testing::ElementsAre(1, 3));
  EXPECT_EQ(fields.data, "/cache5/data");
  EXPECT_THAT(overridden,
              testing::ElementsAre("data = \"s3://bucket5/x\" overrides \"s3://bucket5/old\""));
}

TEST(Locations, OfARowThatWaitsAreAskedForWhereNothingIsAdopted) {
  Located located("/cache6");
  Fields fields;
  auto table = table_of(fields);
  table.of(&fields.data).locate_after_adoption();
  table.parse({"--data=s3://bucket6/x"});
  EXPECT_TRUE(located.asked.empty());
  table.locate_all();
  EXPECT_EQ(fields.data, "/cache6/data");
}

TEST(Locations, WithoutAnybodyWhoKnowsStoresAUrlIsRefusedWithoutItsPassword) {
  Fields fields;
  auto table = table_of(fields);
  EXPECT_EQ(thrown<std::invalid_argument>([&] { table.parse({"--data=s3://u:secret@bucket4/x"}); }),
            "--data: needs a local path, not a URL, received s3://bucket4/x");
}

TEST(Locations, WhatStandsBeforeAUrlHidesNoPassword) {
  for (const std::string flag : {"--data", "--model", "--output"}) {
    for (const auto* before : {" ", "\n", "x="}) {
      Fields fields;
      auto table = table_of(fields);
      const auto text = thrown<std::invalid_argument>(
          [&] { table.parse({formatted("{}={}s3://user:secret@bucket/x", flag, before)}); });
      EXPECT_THAT(text, HasSubstr("a URL needs to begin with its scheme"));
      EXPECT_THAT(text, HasSubstr("s3://bucket/x"));
      EXPECT_THAT(text, Not(HasSubstr("secret")));
    }
  }
}

}  // namespace
}  // namespace dimred
