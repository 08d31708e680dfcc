#include "checkpoints/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr auto toml = "epochs = 2\nmodel = \"convnet\"\npad = 2\n";
constexpr auto persistent = "model = \"convnet\"\npad = 2\n";

/// A run with a configuration, a state and a snapshot that agree.
class Run : public ::testing::Test {
 protected:
  Run() {
    put_file(run / "config.toml", with_digest(toml));
    save_state(1, persistent);
    save_snapshot(run, persistent);
  }
  void save_state(std::int64_t step, const std::string& config) {
    State state;
    state.scalars = {{"step", step}};
    if (!config.empty()) state.scalars["config"] = config;
    StateStore(run / "checkpoints", 9).save(state);
  }
  static fs::path save_snapshot(const fs::path& place, const std::string& config) {
    Snapshot snapshot;
    snapshot.weights.assign(4, 1);
    snapshot.layout_json = "{}";
    snapshot.layout_hash = std::string(32, '0');
    snapshot.run_json = nlohmann::json{{"config", config}}.dump();
    return SnapshotStore(place / "snapshots", 9).save(snapshot).path;
  }
  std::string refusal(const fs::path& path) {
    return thrown<std::runtime_error>([&] { open_run(path); });
  }

  TemporaryFolder folder;
  fs::path run = [this] {
    fs::create_directory(folder / "run");
    return folder / "run";
  }();
};

TEST_F(Run, IsFoundFromAllThatIsInIt) {
  for (const auto* name : {"",
                           "config.toml",
                           "checkpoints",
                           "checkpoints/state_00000001",
                           "snapshots",
                           "snapshots/snapshot_00000000.h5"}) {
    const auto opened = open_run(run / name);
    EXPECT_EQ(fs::weakly_canonical(opened.folder / "x"), run / "x") << name;
    EXPECT_EQ(opened.config, toml) << name;
  }
}

class Emptied : public Run, public ::testing::WithParamInterface<std::string> {};
TEST_P(Emptied, ConfigurationIsRefusedByName) {
  put_file(run / "config.toml", GetParam());
  for (const auto& path : {run, run / "checkpoints" / "state_00000001"}) {
    EXPECT_THAT(refusal(path), HasSubstr((run / "config.toml").string() + " is damaged"));
    EXPECT_THAT(refusal(path), HasSubstr("put the run's own config.toml back"));
  }
}
INSTANTIATE_TEST_SUITE_P(RunConfig,
                         Emptied,
                         ::testing::Values("",
                                           toml,  // without a digest
                                           "   \n \n",
                                           std::string(120, '\0'),
                                           with_digest(toml).substr(0, 20),
                                           with_digest(toml).substr(0, 70),
                                           with_digest(toml).substr(0, 90),
                                           with_digest(toml).substr(0, 100),
                                           with_digest(toml) + "pad = 3\n"));

TEST_F(Run, WithoutItsConfigurationIsRefusedByName) {
  fs::remove(run / "config.toml");
  for (const auto* name : {"", "checkpoints/state_00000001", "snapshots"})
    EXPECT_THAT(refusal(run / name), HasSubstr((run / "config.toml").string() + " is missing"));
}

TEST_F(Run, WhoseConfigurationIsAPipeIsRefusedAndNotWaitedFor) {
  fs::remove(run / "config.toml");
  ASSERT_EQ(::mkfifo((run / "config.toml").c_str(), 0600), 0);
  EXPECT_THAT(refusal(run),
              HasSubstr((run / "config.toml").string() + " is missing, or is not a file"));
}

TEST(ReadText, EndlessFilesAreRefused) {
  EXPECT_THAT(thrown<std::invalid_argument>([] { read_text("/dev/zero"); }),
              HasSubstr("'/dev/zero' needs to be a regular file"));
}

TEST_F(Run, HasTheConfigurationOfItsStateAndSnapshot) {
  put_file(run / "config.toml", with_digest("model = \"convnet\"\n"));
  EXPECT_THAT(refusal(run),
              HasSubstr("state_00000001: the run had pad = 2, but config.toml lacks this option"));
  put_file(run / "config.toml", with_digest("model = \"resnet20\"\npad = 2\n"));
  EXPECT_THAT(refusal(run),
              HasSubstr("the run had model = \"convnet\", but config.toml has \"resnet20\""));
  const auto foreign = save_snapshot(run, "model = \"resnet20\"\npad = 2\n");
  EXPECT_EQ(open_run(foreign).source, run / "config.toml");
  EXPECT_THAT(refusal(run / "checkpoints" / "state_00000001"), HasSubstr("convnet"));
}

TEST_F(Run, IsCheckedByItsNewestReadableState) {
  save_state(2, "model = \"resnet20\"\n");
  EXPECT_THAT(refusal(run), HasSubstr("resnet20"));
  put_file(run / "checkpoints" / "state_00000002" / "state.json", "{}");
  EXPECT_EQ(open_run(run).config, toml);
}

TEST_F(Run, WhoseStateSaysNothingIsRefused) {
  save_state(2, "");
  EXPECT_THAT(refusal(run), HasSubstr("use the revision of dimred that wrote the file"));
}

TEST_F(Run, IsNotNeededByWhatSaysItItself) {
  const TemporaryFolder elsewhere;
  const auto snapshot = save_snapshot(elsewhere.path(), persistent);
  for (const auto& path : {snapshot, snapshot.parent_path()}) {
    const auto opened = open_run(path);
    EXPECT_EQ(opened.folder, "");
    EXPECT_EQ(opened.config, persistent);
  }
  fs::copy(run / "checkpoints" / "state_00000001", elsewhere / "state");
  EXPECT_EQ(open_run(elsewhere / "state").config, persistent);
  put_file(elsewhere / "net.pt", "somebody's");
  EXPECT_EQ(open_run(elsewhere / "net.pt").config, "");
  EXPECT_EQ(open_run("").config, "");
}

/// A table with every kind of row, as a run and its resume see it.
struct Resumed {
  std::string model = "convnet", data = "here", device = "cuda";
  std::int64_t epochs = 3, threads = 2, seed = 1;
  bool caching = true, deterministic = false;
  OptionTable table{"test", ""};

  Resumed() {
    table.group("Run");
    table.add("epochs", &epochs, "").may_change();
    table.add("threads", &threads, "").may_change_unless(is_on("deterministic"));
    table.add("deterministic", &deterministic, "");
    table.add("seed", &seed, "").way_on("; with --seed {} it goes on");
    table.add("device", &device, "");
    table.group("Data", {.persists = true});
    table.add("data", &data, "");
    table.add("datasets_use_caching", &caching, "").may_change();
    table.group("Model", {.persists = true});
    table.add("model", &model, "");
  }

  /// Returns the refusal of a resume with these values.
  std::string refusal(const RunConfig& earlier) const {
    return thrown<std::invalid_argument>(
        [&] { require_same_configuration("run", earlier.toml, run_config(table)); });
  }
};

TEST(RunConfig, ThatPersistsIsWhatTheWeightsDependOn) {
  const Resumed now;
  EXPECT_EQ(run_config(now.table).persistent, "data = \"here\"\nmodel = \"convnet\"\n");
}

TEST(RunConfig, GoesOnOnAnotherDeviceOfItsKind) {
  Resumed before, now;
  for (const auto& [was, is] : {std::pair{"cuda", "cuda:1"}, {"cuda:0", "cuda"}, {"auto", "cpu"}}) {
    before.device = was;
    now.device = is;
    EXPECT_EQ(now.refusal(run_config(before.table)), "no exception") << was << ", " << is;
  }
  before.device = "cuda:1";
  now.device = "cpu";
  EXPECT_THAT(now.refusal(run_config(before.table)), HasSubstr("cuda:1"));
}

TEST(RunConfig, MayChangeWhereItsRowsSaySo) {
  const Resumed before;
  const auto earlier = run_config(before.table);
  Resumed now;
  EXPECT_EQ(now.refusal(earlier), "no exception");
  now.epochs = 9;
  now.threads = 1;
  now.caching = false;
  EXPECT_EQ(now.refusal(earlier), "no exception");
  now.model = "lenet";
  EXPECT_THAT(
      now.refusal(earlier),
      HasSubstr("the run has model = \"convnet\", received \"lenet\"; choose another --output"));
  now.model = "convnet";
  now.seed = 2;
  EXPECT_THAT(now.refusal(earlier), HasSubstr("seed = 1, received 2; with --seed 1 it goes on"));
}

TEST(RunConfig, KeepsItsThreadsWhereItIsDeterministic) {
  Resumed before, now;
  before.deterministic = now.deterministic = true;
  now.threads = 1;
  EXPECT_THAT(now.refusal(run_config(before.table)), HasSubstr("threads = 2, received 1"));
}

TEST(RunConfig, HasARemovedOptionAtItsOldDefaultAlone) {
  Resumed now;
  now.table.removed("noise", "0", "8b694755", "leave it out");
  auto earlier = run_config(now.table);
  earlier.toml += "noise = 0.0\n";
  EXPECT_EQ(now.refusal(earlier), "no exception");
  earlier.toml += "half = true\n";
  EXPECT_THAT(now.refusal(earlier), HasSubstr("the run has half = true, received (unset)"));
  now.table.removed("half", "false", "8b694755", "leave it out");
  EXPECT_THAT(now.refusal(earlier),
              HasSubstr("half: dimred no longer has this option, received true; the last revision "
                        "with this option is 8b694755"));
}

TEST_F(Run, ThatGoesOnAgreesWithStatesOfAnEarlierRevision) {
  Resumed now;
  now.table.removed("pad", "2", "8b694755", "leave it out");
  const auto config = run_config(now.table);
  EXPECT_EQ(continued_toml(config, ""), config.toml);
  put_file(run / "config.toml", with_digest(config.toml));
  EXPECT_THAT(refusal(run), HasSubstr("pad = 2, but config.toml lacks this option"));
  const auto goes_on = continued_toml(config, toml);
  put_file(run / "config.toml", with_digest(goes_on));
  EXPECT_EQ(open_run(run).config, goes_on);
  EXPECT_EQ(continued_toml(config, goes_on), goes_on);
}

}  // namespace
}  // namespace dimred::checkpoints
