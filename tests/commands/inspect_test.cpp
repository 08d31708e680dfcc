#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoints/run_config.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "tests/checkpoints/snapshots_there.h"
#include "tests/commands/program.h"

namespace dimred::commands {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome inspect(const fs::path& path, const std::string& options = "") {
  return dimred_program(formatted("inspect {} {}", path.string(), options));
}

void expect_shown(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  for (const auto& part : parts) EXPECT_THAT(outcome.output, HasSubstr(part));
}

void expect_damaged(const Outcome& outcome, const std::string& named) {
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.errors, HasSubstr("dimred inspect: error: "));
  EXPECT_THAT(outcome.output + outcome.errors, HasSubstr(named));
}

constexpr auto options_of_run = "model = \"convnet\"\n";

fs::path write_state(const fs::path& folder) {
  checkpoints::State state;
  state.scalars = {{"step", 938}, {"epoch", 1}, {"config", options_of_run}};
  state.vectors["weights"] = std::vector<float>(40, 0.25F);
  state.counters["counters"] = {1, 2, 3};
  return checkpoints::StateStore(folder, 3).save(state);
}

TEST(InspectSnapshot, ShowsItsContents) {
  const TemporaryFolder folder;
  const auto file = first_file(write_snapshots(folder.path(), 1));
  expect_shown(inspect(file),
               {"digest verified", "40 float32", small_layout().hash, "0.5", "not measured"});
  expect_shown(inspect(file, "--tensors"), {"conv.weight", "4 x 1 x 3 x 3", "weight"});
}

class DamagedSnapshot : public testing::TestWithParam<std::int64_t> {};
TEST_P(DamagedSnapshot, ExitsWith1) {
  const TemporaryFolder folder;
  const auto file = first_file(write_snapshots(folder.path(), 1));
  flip_bit(file, GetParam());
  expect_damaged(inspect(file), file.string());
}
// In the magic, in the digest, in the user block's rest, in HDF5's head, in the middle, at the end.
INSTANTIATE_TEST_SUITE_P(Inspect, DamagedSnapshot, testing::Values(0, 30, 500, 520, 1500, -1));

TEST(InspectSnapshot, TruncationAtAnyLengthIsDamage) {
  const TemporaryFolder folder;
  const auto file = first_file(write_snapshots(folder.path(), 1));
  for (const std::uintmax_t size : {2000, 600, 512, 511, 18, 5, 0}) {
    fs::resize_file(file, size);
    expect_damaged(inspect(file), file.string());
  }
}

TEST(InspectFolder, ListsSnapshotsAndNamesTheDamagedOne) {
  const TemporaryFolder folder;
  const auto snapshots = write_snapshots(folder.path(), 3);
  expect_shown(inspect(snapshots), {"snapshot_00000003.h5", "epoch 2, step 2"});
  flip_bit(first_file(snapshots), -1);
  const auto outcome = inspect(snapshots);
  expect_damaged(outcome, "DAMAGED");
  EXPECT_THAT(outcome.output, HasSubstr("snapshot_00000003.h5"));
}

TEST(InspectFolder, SaysWhenModelsAreMixed) {
  const TemporaryFolder folder;
  const auto snapshots = write_snapshots(folder.path(), 2);
  EXPECT_THAT(inspect(snapshots).output, Not(HasSubstr("different models")));
  auto other = small_snapshot(9);
  other.layout_hash = std::string(32, 'a');
  checkpoints::write_snapshot(snapshots / "snapshot_00000009.h5", other);
  EXPECT_THAT(inspect(snapshots).output, HasSubstr("different models"));
}

TEST(InspectFolder, ListsWeightFilesOfOtherPrograms) {
  const TemporaryFolder folder;
  for (const auto* name : {"step1.pt", "step2.pth.tar"}) folder.write(name, "PK of PyTorch");
  expect_shown(inspect(folder.path()),
               {"weight files", "step1.pt", "step2.pth.tar", "13 B, PyTorch"});
  folder.write("step3.pt", "overwritten");
  EXPECT_THAT(inspect(folder.path()).output, HasSubstr("step3.pt            DAMAGED"));
}

TEST(InspectFolder, RefusesWhatHoldsNothingOfOurs) {
  const TemporaryFolder folder;
  folder.write("notes.txt", "hello");
  const auto outcome = inspect(folder.path());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr(folder.path().string()));
}

TEST(InspectState, ShowsScalarsAndVectorsFromFolderOrHeader) {
  const TemporaryFolder folder;
  const auto state = write_state(folder.path());
  for (const auto& path : {state, state / "state.json"}) {
    expect_shown(inspect(path), {"digests verified", "938", "40 float32", "3 int64"});
  }
  expect_shown(inspect(folder.path()), {state.filename().string(), "1 vectors, 1 counters"});
}

TEST(InspectState, NamesADamagedVector) {
  const TemporaryFolder folder;
  const auto state = write_state(folder.path());
  flip_bit(state / "weights.f32", 3);
  expect_damaged(inspect(state), "weights.f32");
  expect_damaged(inspect(folder.path()), "weights.f32");
}

TEST(InspectMatrix, ShowsShapeAndSidecarByEitherName) {
  const TemporaryFolder folder;
  const auto snapshots = write_snapshots(folder.path(), 6);
  const auto matrix = folder.path() / "pca_mat.npy";
  ASSERT_EQ(dimred_program(
                formatted("pca {} --components 3 --output {}", snapshots.string(), matrix.string()))
                .code,
            0);
  for (const auto& path : {matrix, folder.path() / "pca_mat.json"}) {
    expect_shown(
        inspect(path),
        {"3 x 40", "float32", "order               C", small_layout().hash, "explained variance"});
  }
  fs::remove(folder.path() / "pca_mat.json");
  expect_shown(inspect(matrix), {"3 x 40", "sidecar             none"});
}

TEST(InspectMatrix, ShowsKindSeedAndBlocks) {
  const TemporaryFolder folder;
  const auto matrix = folder.path() / "p.npy";
  const auto pca = formatted("pca {} --components 5 --overwrite --output {}",
                             write_snapshots(folder.path(), 6).string(),
                             matrix.string());
  ASSERT_EQ(dimred_program(pca).code, 0);
  expect_shown(inspect(matrix), {"kind                pca\n", "blocks              1, whole"});
  ASSERT_EQ(dimred_program(pca + " --kind shuffled --seed 9 --blocks layers").code, 0);
  expect_shown(
      inspect(matrix),
      {"kind                shuffled, seed 9",
       "blocks              2, block-diagonal by layers; 1 blocks have fewer than 5 non-zero rows",
       "orthonormal to"});  // conv.bias has 4 columns
  ASSERT_EQ(dimred_program(pca + " --kind random --seed 9").code, 0);
  const auto outcome = inspect(matrix);
  expect_shown(outcome, {"kind                random, seed 9"});
  EXPECT_THAT(outcome.output, Not(HasSubstr("explained variance")));
}

TEST(InspectMatrix, TruncationIsDamage) {
  const TemporaryFolder folder;
  auto bytes = checkpoints::npy_header_bytes({2, 3});
  const auto file = folder.write("p.npy", bytes + std::string(23, '\0'));
  expect_damaged(inspect(file), file.string());
}

TEST(InspectSafetensors, ShowsTensors) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "twin.safetensors";
  checkpoints::write_safetensors(file, {{"fc.weight", {2, 3}, std::vector<float>(6, 1)}});
  expect_shown(inspect(file), {"format              safetensors", "parameters          6", "F32"});
  expect_shown(inspect(file, "--tensors"), {"fc.weight", "F32", "2 x 3"});
  expect_shown(inspect(folder.path()), {"twin.safetensors"});
  fs::resize_file(file, fs::file_size(file) - 1);
  expect_damaged(inspect(file), file.string());
  expect_damaged(inspect(folder.path()), "twin.safetensors");
}

/// An IDX file of bytes: magic 0 0 8 RANK, big-endian extents below 256, `bytes` of data.
std::string idx_bytes(const std::vector<int>& extents, int bytes) {
  std::string text{0, 0, 8, static_cast<char>(extents.size())};
  for (const int extent : extents) text += std::string(3, '\0') + static_cast<char>(extent);
  return text + std::string(bytes, '\1');
}

TEST(InspectDataSet, ShowsBothHalvesOrTheDamage) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", idx_bytes({3, 2, 2}, 12));
  folder.write("train-labels-idx1-ubyte", idx_bytes({3}, 3));
  folder.write("t10k-images-idx3-ubyte", idx_bytes({2, 2, 2}, 8));
  const auto labels = folder.write("t10k-labels-idx1-ubyte", idx_bytes({2}, 2));
  expect_shown(inspect(folder.path()), {"train", "3 images of 2 x 2", "test", "2 images of 2 x 2"});
  fs::resize_file(labels, fs::file_size(labels) - 1);
  expect_damaged(inspect(folder.path()), labels.string());
}

/// A run folder as the trainers leave it.
class InspectRun : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;
  InspectRun() {
    folder.write("config.toml", checkpoints::with_digest(options_of_run));
    write_manifest({{"outcome", "finished"}, {"seed", 7}, {"details", Json::object()}});
    folder.write("curve.csv",
                 "stage,step,test_accuracy\nstage1,469,0.81\nstage1,938,0.89\nstage1,14");
    write_snapshots(folder.path(), 2);
    write_state(folder.path() / "checkpoints");
  }
  void write_manifest(Json values) const {
    checkpoints::add_digest(values);
    folder.write("manifest.json", values.dump());
  }
  TemporaryFolder folder;
};

TEST_F(InspectRun, ShowsOutcomeLastWholeRowSnapshotsAndStates) {
  const auto outcome = inspect(folder.path());
  expect_shown(
      outcome,
      {"finished", "curve rows          2", "0.89", "snapshot_00000002.h5", "state_00000938"});
  EXPECT_THAT(outcome.output, Not(HasSubstr("0.81")));
  EXPECT_EQ(inspect(folder.path() / "config.toml").output, outcome.output);
}

TEST_F(InspectRun, DamageInsideIsFound) {
  flip_bit(first_file(folder.path() / "snapshots"), -1);
  expect_damaged(inspect(folder.path()), "snapshot_00000001.h5");
}

TEST_F(InspectRun, SnapshotsThatItsStateListsAreMissed) {
  const auto snapshots = folder.path() / "snapshots";
  checkpoints::State state;
  state.scalars = {{"step", 939},
                   {"config", options_of_run},
                   {"snapshots", checkpoints::to_json(checkpoints::snapshots_there(snapshots))}};
  checkpoints::StateStore(folder.path() / "checkpoints", 3).save(state);
  expect_shown(inspect(folder.path()), {"snapshot_00000002.h5"});
  fs::remove(snapshots / "snapshot_00000001.h5");
  for (const auto& path : {folder.path(), snapshots})
    expect_damaged(inspect(path), "1 of 2 snapshots in");
  fs::remove_all(snapshots);
  expect_damaged(inspect(folder.path()), "0 of 2 snapshots in");
}

class ConfigurationOf : public InspectRun, public testing::WithParamInterface<std::string> {};
TEST_P(ConfigurationOf, ARunThatIsNotWholeIsDamage) {
  folder.write("config.toml", GetParam());
  expect_damaged(inspect(folder.path()), "config.toml         DAMAGED");
}
INSTANTIATE_TEST_SUITE_P(InspectRun,
                         ConfigurationOf,
                         testing::Values("", "    ", "# Written by dimred; XX"));

TEST_F(InspectRun, FilesAreAsLongAsTheManifestSays) {
  const auto curve = folder.path() / "curve.csv";
  const auto expect_size = [&](std::uintmax_t size) {
    write_manifest({{"outcome", "finished"}, {"files", {{"curve.csv", size}, {"final.h5", 9}}}});
  };
  folder.write("final.h5", "123456789");
  expect_size(fs::file_size(curve));
  const auto foreign = inspect(folder.path());  // a final.h5 that is no snapshot
  EXPECT_THAT(foreign.output, Not(HasSubstr("had")));
  expect_size(fs::file_size(curve) + 7);
  const auto size = fs::file_size(curve);
  fs::remove(folder.path() / "final.h5");
  expect_damaged(inspect(folder.path()),
                 formatted("DAMAGED: the file has {} bytes, but the run wrote {}", size, size + 7));
  expect_damaged(inspect(folder.path()), "final.h5            MISSING");
}

TEST_F(InspectRun, BrokenManifestIsDamage) {
  folder.write("manifest.json", "{\"outcome\": ");
  const auto outcome = inspect(folder.path());
  expect_damaged(outcome, "manifest.json");
  EXPECT_THAT(outcome.output, HasSubstr("snapshot_00000002.h5"));
}

TEST_F(InspectRun, AManifestOfOtherValuesThanItsDigestIsDamage) {
  Json manifest{{"outcome", "finished"}, {"seed", 7}, {"mean", {0.1, 0.5}}};
  folder.write("manifest.json", manifest.dump(2));
  expect_damaged(inspect(folder.path()), "manifest.json");
  checkpoints::add_digest(manifest);
  folder.write("manifest.json", manifest.dump(2));
  expect_shown(inspect(folder.path()), {"manifest.json       whole, digest verified"});
  manifest["seed"] = 8;
  folder.write("manifest.json", manifest.dump(2));
  expect_damaged(inspect(folder.path()), "manifest.json");
}

TEST_F(InspectRun, ACurveWithoutEndIsDamage) {
  std::filesystem::remove(folder / "curve.csv");
  std::filesystem::create_symlink("/dev/zero", folder / "curve.csv");
  expect_damaged(inspect(folder.path()), "curve.csv");
}

TEST_F(InspectRun, DamagedCurveAndMissingConfigurationAreDamage) {
  folder.write("curve.csv", "stage,step\nstage1,1,2\n");
  expect_damaged(inspect(folder.path()), "curve.csv");
  folder.write("curve.csv", "stage,step\nstage1,1\n");
  std::filesystem::remove(folder / "manifest.json");
  expect_damaged(inspect(folder.path()), "manifest.json");
}

}  // namespace
}  // namespace dimred::commands
