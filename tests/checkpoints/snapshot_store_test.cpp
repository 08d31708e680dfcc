#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "checkpoints/snapshot.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

Snapshot small(std::int64_t step, std::size_t parameters = 4) {
  Snapshot snapshot;
  snapshot.weights.assign(parameters, 1.0F);
  snapshot.step = step;
  snapshot.layout_json = std::string("{}");
  snapshot.layout_hash = std::string(32, '0');
  return snapshot;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& file : list_files(folder, {""})) names.push_back(file.filename().string());
  return names;
}

TEST(SnapshotStore, KeepsTheNewestByStep) {
  const TemporaryFolder folder;
  const SnapshotStore store(folder / "snapshots", 3);
  for (std::int64_t step : {99999998, 100, 99999999, 100000000, 123456789}) store.save(small(step));
  EXPECT_EQ(names_in(store.folder()),
            (std::vector<std::string>{
                "snapshot_99999999.h5", "snapshot_100000000.h5", "snapshot_123456789.h5"}));
}

TEST(SnapshotStore, NeverDeletesTheOneJustSavedNorForeignFiles) {
  const TemporaryFolder folder;
  put_file(folder / "snapshot_best.h5", "somebody's");
  const SnapshotStore store(folder.path(), 2);
  for (std::int64_t step : {5, 6, 7, 1}) store.save(small(step));
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{
                "snapshot_00000001.h5", "snapshot_00000007.h5", "snapshot_best.h5"}));
}

// Deleting happens after the new file is durable: a save that fails deletes nothing.
TEST(SnapshotStore, AFailedSaveDeletesNothing) {
  const TemporaryFolder folder;
  const SnapshotStore store(folder.path(), 1);
  store.save(small(1));
  Snapshot bad = small(2);
  bad.weights[0] = NAN;
  EXPECT_THROW(store.save(bad), std::invalid_argument);
  std::filesystem::create_directories(folder / "snapshot_00000003.h5" / "in the way");
  EXPECT_THROW(store.save(small(3)), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::exists(folder / "snapshot_00000001.h5"));
  EXPECT_EQ(folder.count(), 2U);
}

// The child writes 64 MB snapshots until it is killed, in the middle of one of them.
TEST(SnapshotStore, SurvivesAKillDuringASave) {
  const TemporaryFolder folder;
  const SnapshotStore store(folder.path(), 100);
  store.save(small(0));
  const pid_t child = fork();
  if (child == 0) {
    for (std::int64_t step = 1;; ++step) store.save(small(step, 16 << 20));
  }
  const auto temporary_grows = [&] {
    std::error_code error;
    for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
      if (item.path().extension() == ".tmp" && item.file_size(error) > 0 && !error) return true;
    }
    return false;
  };
  while (!temporary_grows()) usleep(100);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::size_t before = list_files(folder.path(), {".h5"}).size();
  for (const auto& file : list_files(folder.path(), {".h5"})) EXPECT_NO_THROW(read_snapshot(file));
  store.save(small(1000));
  EXPECT_EQ(folder.count(), before + 1) << "the leftover is gone";
}

TEST(SnapshotStore, RefusesToKeepNoneAndNegativeSteps) {
  const TemporaryFolder folder;
  EXPECT_THROW(SnapshotStore(folder.path(), 0), std::invalid_argument);
  EXPECT_THROW(SnapshotStore(folder.path(), 1).save(small(-1)), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::checkpoints
