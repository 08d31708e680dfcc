#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "tests/checkpoints/snapshots_there.h"
#include "tests/commands/program.h"

namespace dimred::commands {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Snapshots in a scratch folder, and `dimred pca` on them.
class Pca : public testing::Test {
 protected:
  Outcome pca(const std::string& options) const {
    return dimred_program(formatted(
        "pca {} --output {} {}", (folder.path() / "snapshots").string(), output.string(), options));
  }
  void expect_nothing_written(const Outcome& outcome, int code, const std::string& part) const {
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("snapshots"));
  }
  TemporaryFolder folder;
  fs::path output = folder.path() / "pca_mat.npy";
};

TEST_F(Pca, WritesMatrixAndSidecarAndSaysSo) {
  write_snapshots(folder.path(), 6);
  const auto outcome = pca("--components 3");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(checkpoints::read_npy_header(output).shape, (std::vector<std::int64_t>{3, 40}));
  EXPECT_TRUE(fs::exists(folder.path() / "pca_mat.json"));
  EXPECT_THAT(outcome.output, HasSubstr("wrote " + output.string()));
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(Pca, QuietPrintsNothing) {
  write_snapshots(folder.path(), 6);
  const auto outcome = pca("--components 3 --quiet");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output + outcome.errors, "");
  EXPECT_TRUE(fs::exists(output));
}

TEST_F(Pca, OptionsMayComeFromAFile) {
  const auto snapshots = write_snapshots(folder.path(), 6);
  const auto config = folder.write("pca.toml",
                                   formatted("snapshots = '{}'\ncomponents = 2\noutput = '{}'\n",
                                             snapshots.string(),
                                             output.string()));
  EXPECT_EQ(dimred_program("pca --config " + config.string()).code, 0);
  EXPECT_EQ(checkpoints::read_npy_header(output).shape.front(), 2);
}

TEST_F(Pca, TakesTheFirstSnapshotAsTheBase) {
  write_snapshots(folder.path(), 6);
  const auto outcome = pca("--centre base");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(checkpoints::read_npy_header(output).shape.front(), 5);
  EXPECT_THAT(outcome.output,
              HasSubstr("a random walk of 6 snapshots, from the first: 100.00 %, 82.29 %"));
  EXPECT_EQ(pca("--overwrite --centre base --kind random").code, 2);
}

TEST_F(Pca, RefusesAnEmptyFolder) {
  fs::create_directory(folder.path() / "snapshots");
  expect_nothing_written(pca(""), 2, "snapshots");
}

TEST_F(Pca, NamesADamagedSnapshot) {
  const auto victim = first_file(write_snapshots(folder.path(), 6));
  // A weight, the head that HDF5 reads, the last byte.
  for (const auto place : {checkpoints::read_snapshot_info(victim).weights_offset + 9,
                           std::int64_t{600},
                           std::int64_t{-1}}) {
    flip_bit(victim, place);
    expect_nothing_written(pca("--components 3"), 1, victim.string());
    flip_bit(victim, place);
  }
}

TEST_F(Pca, NamesASnapshotOfTheRunThatIsGone) {
  const auto snapshots = write_snapshots(folder.path(), 6);
  checkpoints::State state;
  state.scalars = {{"step", 6},
                   {"snapshots", checkpoints::to_json(checkpoints::snapshots_there(snapshots))}};
  checkpoints::StateStore(folder.path() / "checkpoints", 3).save(state);
  fs::remove(first_file(snapshots));
  const auto outcome = pca("--components 3");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("5 of 6 snapshots in"));
  EXPECT_FALSE(fs::exists(output));
}

TEST_F(Pca, SaysThatTheSnapshotsOfAnEarlierRunCannotBeCounted) {
  write_snapshots(folder.path(), 6);
  folder.write("config.toml", "epochs = 1\n");
  const auto outcome = pca("--components 3");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("cannot tell whether any is missing"));
}

TEST_F(Pca, RefusesSnapshotsOfDifferentModels) {
  const auto snapshots = write_snapshots(folder.path(), 6);
  auto other = small_snapshot(7);
  const auto layout = layout::make_layout({{"dense.weight", {10, 4}}});
  other.layout_json = layout::to_json(layout);
  other.layout_hash = layout.hash;
  checkpoints::SnapshotStore(snapshots, 1000).save(other);
  expect_nothing_written(pca("--components 3"), 2, "snapshot_00000007.h5");
}

TEST_F(Pca, LeavesAnExistingMatrixAlone) {
  write_snapshots(folder.path(), 6);
  folder.write("pca_mat.npy", "precious");
  const auto refused = pca("--components 3");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("exists already"));
  EXPECT_EQ(text_of_file(output), "precious");
  EXPECT_EQ(pca("--components 3 --overwrite").code, 0);
  EXPECT_NE(text_of_file(output), "precious");
}

TEST_F(Pca, LeavesAnExistingSidecarAlone) {
  write_snapshots(folder.path(), 6);
  folder.write("pca_mat.json", "precious");
  EXPECT_EQ(pca("--components 3").code, 2);
  EXPECT_EQ(text_of_file(folder.path() / "pca_mat.json"), "precious");
  EXPECT_FALSE(fs::exists(output));
}

TEST_F(Pca, OverwriteReplacesADamagedSidecarButNoForeignFile) {
  write_snapshots(folder.path(), 6);
  ASSERT_EQ(pca("--components 3").code, 0);
  const auto sidecar = folder.path() / "pca_mat.json";
  const auto whole = text_of_file(sidecar);
  auto edited = whole;
  edited.replace(edited.find("\"components\": 3"), 15, "\"components\": 4");
  for (const auto& damaged : {whole.substr(0, whole.size() / 2), edited}) {
    put_file(sidecar, damaged);
    const auto outcome = pca("--components 3 --overwrite");
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(text_of_file(sidecar), whole);
  }
  const auto matrix = text_of_file(output);
  for (const auto* foreign : {"precious", "", "{\n \"format\": \"other\"\n}\n"}) {
    put_file(sidecar, foreign);
    const auto outcome = pca("--components 2 --overwrite");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.errors,
                HasSubstr("but this file exists and does not have the format 'dimred-pca 1'; move "
                          "this file away"));
    EXPECT_EQ(text_of_file(sidecar), foreign);
    EXPECT_EQ(text_of_file(output), matrix);
  }
}

TEST_F(Pca, WritesEachKindAndItsSidecarSaysSo) {
  write_snapshots(folder.path(), 6);
  const auto sidecar = folder.path() / "pca_mat.json";
  for (const auto* kind : {"pca", "span", "random", "shuffled"}) {
    const bool seed = std::string(kind) == "random" || std::string(kind) == "shuffled";
    for (const auto* blocks : {"whole", "layers"}) {
      const auto outcome = pca(formatted("--overwrite {}--components 3 --kind {} --blocks {}",
                                         seed ? "--seed 5 " : "",
                                         kind,
                                         blocks));
      EXPECT_EQ(outcome.code, 0) << outcome.errors;
      EXPECT_EQ(checkpoints::read_npy_header(output).shape, (std::vector<std::int64_t>{3, 40}));
      const auto text = text_of_file(sidecar);
      EXPECT_THAT(text, HasSubstr(formatted("\"kind\": \"{}\"", kind)));
      EXPECT_EQ(text.find("\"seed\": 5") != std::string::npos, seed) << kind;
      const bool layers = text.find("\"blocks\": [\n  [\n   0,\n   36\n  ]") != std::string::npos;
      EXPECT_EQ(layers, std::string(blocks) == "layers") << kind;
    }
  }
}

TEST_F(Pca, SpanTakesAllSnapshotsUnlessTold) {
  write_snapshots(folder.path(), 6);
  ASSERT_EQ(pca("--kind span").code, 0);
  EXPECT_EQ(checkpoints::read_npy_header(output).shape.front(), 6);
  ASSERT_EQ(pca("--kind span --components 2 --overwrite").code, 0);
  EXPECT_EQ(checkpoints::read_npy_header(output).shape.front(), 2);
}

TEST_F(Pca, RandomNeedsOneSnapshotOnly) {
  write_snapshots(folder.path(), 1);
  ASSERT_EQ(pca("--kind random --components 8").code, 0);
  EXPECT_EQ(checkpoints::read_npy_header(output).shape, (std::vector<std::int64_t>{8, 40}));
  EXPECT_EQ(pca("--kind random --components 41 --overwrite").code, 2);
}

TEST_F(Pca, TakesTheSnapshotsInRange) {
  write_snapshots(folder.path(), 8);  // of epochs 1 to 8
  const auto outcome = pca("--components 2 --snapshot_from 2 --snapshot_to 6 --snapshot_skip 1");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("W 3 x 40"));
  const auto sidecar = text_of_file(folder.path() / "pca_mat.json");
  for (int step = 1; step <= 8; ++step) {
    const bool used = sidecar.find(formatted("snapshot_0000000{}.h5", step)) != std::string::npos;
    EXPECT_EQ(used, step == 2 || step == 4 || step == 6) << step;
  }
  const auto none = pca("--overwrite --components 2 --snapshot_from 9");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("choose within epochs 1 to 8"));
}

TEST_F(Pca, WritesTheGramMatrixButOverNoOtherFile) {
  write_snapshots(folder.path(), 6);
  const auto gram = folder.path() / "gram.npy";
  const auto options = "--components 3 --gram " + gram.string();
  const auto outcome = pca(options);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("wrote " + gram.string()));
  EXPECT_EQ(checkpoints::read_npy_header(gram).shape, (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(checkpoints::read_npy_header(gram).item_bytes, 8);
  fs::remove(output);
  fs::remove(folder.path() / "pca_mat.json");
  const auto refused = pca(options);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("choose another --gram or give --overwrite"));
  EXPECT_FALSE(fs::exists(output));
  EXPECT_EQ(pca(options + " --overwrite").code, 0);
}

// A folder's snapshots are those that end in .h5; a pattern's are all that it matches.
TEST_F(Pca, WritesNothingThatWouldBeASnapshot) {
  const auto snapshots = write_snapshots(folder.path(), 6);
  const auto by = [&](const std::string& source, const std::string& options) {
    return dimred_program(
        formatted("pca '{}' --components 3 {}", (folder.path() / source).string(), options));
  };
  const auto inside = "--output " + (snapshots / "p.npy").string();
  const auto gram = "--gram " + (snapshots / "g.npy").string();
  expect_nothing_written(by("snapshots/*", inside), 2, "p.npy' would match the input's pattern");
  expect_nothing_written(
      by("snapshots/*.json", inside), 2, "p.json' would match the input's pattern");
  expect_nothing_written(
      by("snap*/*", "--output " + output.string() + " " + gram), 2, "g.npy' would match");
  for (const auto* source : {"snapshots", "snapshots/*.h5", "snapshots"})
    EXPECT_EQ(by(source, inside + " --overwrite").code, 0) << source;
}

TEST_F(Pca, NeverReplacesItsOwnInput) {
  const std::vector<float> values(12, 1);
  std::string bytes = checkpoints::npy_header_bytes({3, 4});
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto input = folder.write("w.npy", bytes);
  const auto outcome = dimred_program(
      formatted("pca --overwrite --components 1 {} --output {}", input.string(), input.string()));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("is an input of this command; choose another --output"));
  EXPECT_EQ(text_of_file(input), bytes);
}

}  // namespace
}  // namespace dimred::commands
