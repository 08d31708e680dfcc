#include "checkpoints/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "checkpoints/folder_commit.h"
#include "support/digest.h"
#include "tests/checkpoints/damage.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

State example_state() {
  State state;
  state.scalars = {{"step", 12},
                   {"loss", 0.1 + 0.2},
                   {"tiny", 5e-324},
                   {"minus_zero", -0.0},
                   {"seed", std::numeric_limits<std::uint64_t>::max()},
                   {"inverse_hessian", {1.0 / 3.0, -2.5e-17, 1e300}},
                   {"data", {{"file", "train \"set\" \xC3\xA9"}}}};
  for (int i = 0; i < 100; ++i) state.vectors["weights"].push_back(std::sin(1.0F + i));
  state.vectors["weights"][3] = -0.0F;
  state.vectors["empty"] = {};
  state.counters["batches"] = {std::numeric_limits<std::int64_t>::min(), 7};
  return state;
}

void expect_same_state(const State& received, const State& expected) {
  EXPECT_EQ(received.scalars, expected.scalars);
  EXPECT_EQ(received.counters, expected.counters);
  ASSERT_EQ(received.vectors.size(), expected.vectors.size());
  for (const auto& [name, values] : expected.vectors) {
    const auto bytes = std::as_bytes(std::span(values));
    const auto other = std::as_bytes(std::span(received.vectors.at(name)));
    EXPECT_TRUE(std::ranges::equal(bytes, other)) << name;
  }
}

TEST(State, ComesBackBitForBit) {
  const TemporaryFolder folder;
  write_state(folder / "state", example_state());
  const State received = read_state(folder / "state");
  expect_same_state(received, example_state());
  EXPECT_TRUE(std::signbit(received.scalars["minus_zero"].get<double>()));
  EXPECT_EQ(text_of_file(folder / "state" / "weights.f32").size(), 400U);
  EXPECT_TRUE(is_state(folder / "state"));
  EXPECT_FALSE(is_state(folder.path()));
}

TEST(State, GivesTheColumnsAskedFor) {
  const TemporaryFolder folder;
  write_state(folder / "state", example_state());
  const auto choose = [](const std::string& vector, const nlohmann::json& scalars) {
    EXPECT_EQ(scalars, example_state().scalars);
    if (vector == "empty") return ColumnRanges();
    return ColumnRanges(std::vector<layout::ColumnRange>{{2, 5}, {98, 100}});
  };
  const auto whole = example_state().vectors.at("weights");
  State part = example_state();
  part.vectors["weights"] = {whole[2], whole[3], whole[4], whole[98], whole[99]};
  expect_same_state(read_state(folder / "state", choose), part);
  put_file(folder / "state" / "weights.f32",
           text_of_file(folder / "state" / "weights.f32").replace(200, 1, "x"));
  EXPECT_THROW(read_state(folder / "state", choose), std::runtime_error);
}

TEST(State, ReplacesAnOlderStateOfThatName) {
  const TemporaryFolder folder;
  State old = example_state();
  old.vectors["momentum"] = {1.0F};
  write_state(folder / "state", old);
  write_state(folder / "state", example_state());
  expect_same_state(read_state(folder / "state"), example_state());
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "momentum.f32"));
  EXPECT_EQ(folder.count(), 1U);
}

TEST(CommitFolder, ReplacesAlsoWhereFoldersCannotBeSwapped) {
  for (const auto how : {Replacement::exchange, Replacement::two_renames}) {
    const TemporaryFolder folder;
    for (const auto* name : {"new.tmp", "final"}) {
      std::filesystem::create_directory(folder / name);
      put_file(folder / name / "file", name);
    }
    commit_folder(folder / "new.tmp", folder / "final", how);
    EXPECT_EQ(text_of_file(folder / "final" / "file"), "new.tmp");
    EXPECT_EQ(folder.count(), 1U);
  }
}

TEST(CommitFolder, LeavesWhatHasTheNameOfAnOldFolder) {
  const TemporaryFolder folder;
  for (const auto* name : {"new.tmp", "final", "final.old.tmp", "last"}) {
    std::filesystem::create_directory(folder / name);
    put_file(folder / name / "file", name);
  }
  put_file(folder / "final.old2.tmp", "mine");
  put_file(folder / "last.old.tmp", "mine");
  commit_folder(folder / "new.tmp", folder / "final", Replacement::two_renames);
  remove_folder(folder / "last");
  EXPECT_EQ(text_of_file(folder / "final" / "file"), "new.tmp");
  EXPECT_EQ(text_of_file(folder / "final.old.tmp" / "file"), "final.old.tmp");
  EXPECT_EQ(text_of_file(folder / "final.old2.tmp"), "mine");
  EXPECT_EQ(text_of_file(folder / "last.old.tmp"), "mine");
  EXPECT_EQ(folder.count(), 4U);
}

TEST(CommitFolder, ReplacesNoOtherFolderWhereItIsToBeNew) {
  const TemporaryFolder folder;
  for (const auto* name : {"new.tmp", "final"}) std::filesystem::create_directory(folder / name);
  put_file(folder / "final" / "file", "mine");
  EXPECT_THROW(commit_folder(folder / "new.tmp", folder / "final", Replacement::none),
               std::runtime_error);
  EXPECT_EQ(text_of_file(folder / "final" / "file"), "mine");
  EXPECT_EQ(folder.count(), 2U);
}

TEST(CommitFolder, RefusesAFileInTheWay) {
  const TemporaryFolder folder;
  put_file(folder / "state", "a file");
  EXPECT_THROW(write_state(folder / "state", example_state()), std::runtime_error);
  EXPECT_EQ(text_of_file(folder / "state"), "a file");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(State, NonFiniteScalarsBecomeNull) {
  const TemporaryFolder folder;
  State state = example_state();
  state.scalars["best_loss"] = std::numeric_limits<double>::quiet_NaN();
  state.scalars["worst_loss"] = std::numeric_limits<double>::infinity();
  write_state(folder / "state", state);
  const State received = read_state(folder / "state");
  EXPECT_TRUE(received.scalars["best_loss"].is_null());
  EXPECT_TRUE(received.scalars["worst_loss"].is_null());
  EXPECT_EQ(received.scalars["loss"], 0.1 + 0.2);
}

TEST(State, RefusesNonFiniteVectorsAndUnsafeNames) {
  const TemporaryFolder folder;
  State state = example_state();
  state.vectors["weights"][42] = std::numeric_limits<float>::quiet_NaN();
  const auto write = [&] { write_state(folder / "state", state); };
  EXPECT_EQ(thrown<std::invalid_argument>(write),
            "[state] needs finite values, received nan in weights[42]");
  for (const auto* name : {"", "../weights", "a/b", ".hidden", "a b"}) {
    state = example_state();
    state.counters[name] = {1};
    EXPECT_NE(thrown<std::invalid_argument>(write).find(name), std::string::npos) << name;
  }
  state = example_state();
  state.scalars = nlohmann::json::array();
  EXPECT_THROW(write(), std::invalid_argument);
  EXPECT_EQ(folder.count(), 0U);
}

TEST(State, RefusesCountsOutOfRange) {
  const TemporaryFolder folder;
  for (const nlohmann::json& step : {nlohmann::json(-5),
                                     nlohmann::json((std::int64_t{1} << 53) + 2),
                                     nlohmann::json(1.5),
                                     nlohmann::json("7"),
                                     nlohmann::json(std::numeric_limits<std::uint64_t>::max())}) {
    auto state = example_state();
    state.scalars["step"] = step;
    write_state(folder / "state", state);
    const auto message = thrown<std::runtime_error>([&] { read_state(folder / "state"); });
    EXPECT_NE(message.find("needs a whole number in [0, 2^53] as step, received"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(count_of({{"step", std::int64_t{1} << 53}}, "step"), std::int64_t{1} << 53);
}

// A file of another program, whose digest is right.
TEST(State, RefusesToReadNonFiniteVectors) {
  const TemporaryFolder folder;
  write_state(folder / "state", example_state());
  const auto file = folder / "state" / "weights.f32";
  const std::string before = digest_of(text_of_file(file));
  std::string values = text_of_file(file);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(values.data() + 12, &nan, sizeof nan);
  put_file(file, values);
  std::string text = text_of_file(folder / "state" / "state.json");
  text.replace(text.find(before), before.size(), digest_of(values));
  const auto end = text.find("\",", text.find("\"digest\": "));  // of the text's own digest
  text.replace(end - 32, 32, digest_of(text.substr(end)));
  put_file(folder / "state" / "state.json", text);
  EXPECT_NE(thrown<std::runtime_error>([&] {
              read_state(folder / "state");
            }).find("weights.f32' is damaged: value 3 is not finite"),
            std::string::npos);
}

TEST(State, RefusesMissingFolders) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_state(folder / "none"), std::invalid_argument);
  EXPECT_THROW(read_state_header(folder.path()), std::invalid_argument);
}

TEST(State, NamesAMissingOrTruncatedFile) {
  const TemporaryFolder folder;
  const auto read = [&] { read_state(folder / "state"); };
  for (const std::string name : {"weights.f32", "batches.i64"}) {
    write_state(folder / "state", example_state());
    const auto path = folder / "state" / name;
    const std::string text = text_of_file(path);
    for (std::size_t length : {std::size_t{0}, std::size_t{3}, text.size() - 1, text.size() - 8}) {
      put_file(path, text.substr(0, length));
      EXPECT_NE(thrown<std::runtime_error>(read).find(name + "' is damaged: the file needs"),
                std::string::npos)
          << length;
    }
    std::filesystem::remove(path);
    EXPECT_NE(thrown<std::runtime_error>(read).find(name + "' is damaged: the file is missing"),
              std::string::npos);
  }
}

TEST(State, DetectsEveryFlippedBit) {
  const TemporaryFolder folder;
  write_state(folder / "state", example_state());
  for (const std::string name : {"state.json", "weights.f32", "batches.i64"}) {
    for_each_flipped_bit(folder / "state" / name, 80, 200, [&](std::size_t bit) {
      const auto text = thrown<std::runtime_error>([&] { read_state(folder / "state"); });
      EXPECT_NE(text.find(name + "' is damaged"), std::string::npos) << bit << ": " << text;
    });
  }
  expect_same_state(read_state(folder / "state"), example_state());
}

TEST(State, DetectsATruncatedHeader) {
  const TemporaryFolder folder;
  write_state(folder / "state", example_state());
  const auto path = folder / "state" / "state.json";
  const std::string text = text_of_file(path);
  for (std::size_t length = 0; length < text.size(); length += 7) {
    put_file(path, text.substr(0, length));
    EXPECT_THROW(read_state(folder / "state"), std::runtime_error) << length;
  }
}

}  // namespace
}  // namespace dimred::checkpoints
