#include "checkpoints/snapshot_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/series.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "tests/checkpoints/snapshots_there.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A run with six snapshots and a state that lists them.
class RunOfSnapshots : public ::testing::Test {
 protected:
  RunOfSnapshots() {
    for (std::int64_t step = 1; step <= 6; ++step) save(step);
    list = snapshots_there(snapshots);
    save_state(6);
  }
  void save(std::int64_t step, float value = 1) {
    Snapshot snapshot;
    snapshot.weights.assign(4, value);
    snapshot.step = step;
    snapshot.layout_json = "{}";
    snapshot.layout_hash = std::string(32, '0');
    store.save(snapshot);
  }
  void save_state(std::int64_t step) {
    State state;
    state.scalars = {{"step", step}, {"snapshots", to_json(list)}};
    StateStore(folder / "checkpoints", 9).save(state);
  }
  fs::path file(int step) const {
    return snapshots / ("snapshot_0000000" + std::to_string(step) + ".h5");
  }

  TemporaryFolder folder;
  fs::path snapshots = folder / "snapshots";
  SnapshotStore store{snapshots, 1000};
  SnapshotList list;
};

TEST_F(RunOfSnapshots, ThatIsWholeDiffersInNothing) {
  EXPECT_EQ(difference(list, snapshots), "");
  EXPECT_EQ(members({snapshots}, "test").members.size(), 6U);
}

TEST_F(RunOfSnapshots, NamesWhatIsGone) {
  fs::remove(file(2));
  fs::remove(file(5));
  EXPECT_EQ(difference(list, snapshots),
            "4 of 6 snapshots in " + snapshots.string() +
                " are unchanged, missing: snapshot_00000002.h5, "
                "snapshot_00000005.h5");
  const auto text = thrown<std::runtime_error>([&] { members({snapshots}, "test"); });
  EXPECT_THAT(text, HasSubstr("4 of 6"));
  EXPECT_THAT(text, HasSubstr(".txt"));
}

TEST_F(RunOfSnapshots, OfWhichNothingIsLeftIsKnown) {
  fs::remove_all(snapshots);
  EXPECT_THAT(difference(list, snapshots), HasSubstr("0 of 6"));
  EXPECT_THAT(difference(list, snapshots), HasSubstr("(6 in all)"));
}

TEST_F(RunOfSnapshots, NamesWhatIsEmptyCutOrAnothersAndWhatTheRunNeverWrote) {
  put_file(file(1), "");
  put_file(file(2), text_of_file(file(2)).substr(0, 600));
  put_file(file(3), text_of_file(file(3)).substr(0, 60));
  save(4, /*value=*/2);
  put_file(snapshots / "mine.h5", text_of_file(file(5)));
  const auto text = difference(list, snapshots);
  EXPECT_THAT(text, HasSubstr("2 of 6"));
  EXPECT_THAT(text,
              HasSubstr("damaged or replaced: snapshot_00000001.h5, snapshot_00000002.h5, "
                        "snapshot_00000003.h5, snapshot_00000004.h5; from another run: mine.h5"));
}

TEST_F(RunOfSnapshots, NamesWhatIsAByteShorterOrLonger) {
  // Not by resize_file, which a signal disturbs.
  const auto second = text_of_file(file(2)), third = text_of_file(file(3));
  std::ofstream(file(2), std::ios::binary) << second.substr(0, second.size() - 1);
  std::ofstream(file(3), std::ios::binary) << third << '\0';
  EXPECT_THAT(difference(list, snapshots),
              HasSubstr("damaged or replaced: snapshot_00000002.h5, snapshot_00000003.h5"));
}

TEST_F(RunOfSnapshots, GoesOnBehindTheState) {
  save(7);
  EXPECT_EQ(difference(list, snapshots), "");
}

/// Another run's with a later name: it holds another step, or the run has ended.
TEST_F(RunOfSnapshots, TakesNoOthersForItsNewest) {
  fs::copy_file(file(3), snapshots / "snapshot_00000099.h5");
  EXPECT_THAT(difference(list, snapshots), HasSubstr("from another run: snapshot_00000099.h5"));
  fs::remove(snapshots / "snapshot_00000099.h5");
  save(7);
  put_file(folder / "manifest.json", R"({"outcome": "running"})");
  EXPECT_EQ(difference(*list_of_run(snapshots), snapshots), "");
  for (const char* outcome : {"finished", "interrupted"}) {
    put_file(folder / "manifest.json", std::string(R"({"outcome": ")") + outcome + "\"}");
    EXPECT_THAT(difference(*list_of_run(snapshots), snapshots),
                HasSubstr("from another run: snapshot_00000007.h5"));
  }
}

// Killed between the deletion of the oldest and the next state.
TEST_F(RunOfSnapshots, LosesItsOldestToNewerOnesWhereTheRunKeepsOnlySome) {
  list.keep = 6;
  fs::remove(file(1));
  EXPECT_THAT(difference(list, snapshots), HasSubstr("5 of 6"));
  save(7);
  EXPECT_EQ(difference(list, snapshots), "");
  fs::remove(file(3));
  EXPECT_THAT(difference(list, snapshots), HasSubstr("missing: snapshot_00000003.h5"));
}

TEST_F(RunOfSnapshots, KeepsNoMoreThanTheRunDoes) {
  list.keep = 6;
  list.add("snapshot_100000000.h5", "x");
  EXPECT_EQ(list.digests.size(), 6U);
  EXPECT_EQ(list.digests.begin()->first, "snapshot_00000002.h5");
  EXPECT_EQ(list.digests.rbegin()->first, "snapshot_100000000.h5");
  const auto again = snapshot_list_from_json(to_json(list));
  EXPECT_EQ(again.digests, list.digests);
  EXPECT_EQ(again.keep, 6);
}

TEST_F(RunOfSnapshots, IsListedByTheNewestStateThatCanBeRead) {
  fs::remove(file(6));
  list = snapshots_there(snapshots);
  save_state(7);
  EXPECT_EQ(members({snapshots}, "test").members.size(), 5U);
  put_file(folder / "checkpoints" / "state_00000007" / "state.json", "");
  EXPECT_EQ(list_of_run(snapshots)->digests.size(), 6U);
  EXPECT_EQ(list_of_run(snapshots / "")->digests.size(), 6U);
}

TEST_F(RunOfSnapshots, OfAnEarlierVersionIsSaidToBeUnknown) {
  EXPECT_EQ(unlisted(snapshots), "");
  fs::remove_all(folder / "checkpoints");
  EXPECT_EQ(unlisted(snapshots), "");  // a folder of snapshots, no run
  put_file(folder / "config.toml", "epochs = 1\n");
  EXPECT_THAT(unlisted(snapshots), HasSubstr("cannot tell whether any is missing"));
  fs::remove(file(1));
  EXPECT_EQ(members({snapshots}, "test").members.size(), 5U);
}

TEST_F(RunOfSnapshots, GivesWayToAList) {
  fs::remove(file(1));
  put_file(folder / "list.txt", "snapshots/snapshot_00000003.h5\n" + file(2).string() + "\r\n\n");
  EXPECT_EQ(member_weights(members({folder / "list.txt"}, "test")),
            (std::vector{file(3), file(2)}));
}

}  // namespace
}  // namespace dimred::checkpoints
