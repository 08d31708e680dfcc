#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "checkpoints/folder_lock.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

TEST(FolderLock, DoesNotFollowALink) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  put_file(folder / "outside", "precious");
  fs::create_symlink("../outside", folder / "run/.lock");
  EXPECT_THROW(FolderLock(folder / "run"), std::runtime_error);
  EXPECT_EQ(text_of_file(folder / "outside"), "precious");
}

TEST(FolderLock, IsOneOwnersUntilItIsRemoved) {
  const TemporaryFolder folder;
  auto first = FolderLock::try_take(folder.path());
  ASSERT_TRUE(first);
  EXPECT_EQ(text_of_file(folder / ".lock"), std::to_string(::getpid()));
  EXPECT_FALSE(FolderLock::try_take(folder.path()));
  EXPECT_EQ(holder_of(folder.path()), std::to_string(::getpid()));
  EXPECT_THROW(FolderLock(folder.path()), std::runtime_error);
  first->remove();
  EXPECT_FALSE(fs::exists(folder / ".lock"));
  const FolderLock second(folder.path());
  first->remove();  // no more its own
  EXPECT_TRUE(fs::exists(folder / ".lock"));
}

TEST(Stores, SaveNothingInALinkedFolderAndRemoveNothingThere) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run");
  fs::create_directories(folder / "outside/state_1.tmp");
  put_file(folder / "outside/snapshot_1.h5", "precious");
  fs::create_directory_symlink("../outside", folder / "run/linked");
  State state;
  state.scalars["step"] = 7;
  EXPECT_THROW(StateStore(folder / "run/linked", 1).save(state), std::runtime_error);
  Snapshot snapshot;
  snapshot.weights = {1};
  snapshot.layout_json = snapshot.layout_hash = "x";
  EXPECT_THROW(SnapshotStore(folder / "run/linked", 1).save(snapshot), std::runtime_error);
  const fs::directory_iterator items(folder / "outside");
  EXPECT_EQ(std::distance(begin(items), end(items)), 2);
}

}  // namespace
}  // namespace dimred::checkpoints
