#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <limits>

#include "checkpoints/state.h"
#include "tests/tools/temporary_folder.h"

namespace {
int deletions_left = std::numeric_limits<int>::max();  // of files, until the disk fails
}

// In front of libc's: std::filesystem::remove_all calls it for each file.
extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  const bool fails = (flags & AT_REMOVEDIR) == 0 && deletions_left-- <= 0;
  if (!fails) return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
  errno = EIO;
  return -1;
}

namespace dimred::checkpoints {
namespace {

State at(std::int64_t step, std::size_t parameters = 4) {
  State state;
  state.scalars["step"] = step;
  state.vectors["weights"].assign(parameters, static_cast<float>(step));
  return state;
}

TEST(StateStore, KeepsTheNewestByStep) {
  const TemporaryFolder folder;
  const StateStore store(folder / "checkpoints", 2);
  EXPECT_TRUE(store.list().empty());
  EXPECT_FALSE(store.newest_valid().has_value());
  for (std::int64_t step : {99999999, 3, 100000000}) store.save(at(step));
  const auto paths = store.list();
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].filename(), "state_99999999");
  EXPECT_EQ(paths[1].filename(), "state_100000000");
  EXPECT_EQ(store.newest_valid()->scalars["step"], 100000000);
}

TEST(StateStore, FallsBackToTheNewestValidStateAndReports) {
  const TemporaryFolder folder;
  const StateStore store(folder.path(), 5);
  for (std::int64_t step : {1, 2, 3, 4}) store.save(at(step));
  std::string text = text_of_file(folder / "state_00000004" / "weights.f32");
  text[5] ^= 1;
  put_file(folder / "state_00000004" / "weights.f32", text);
  std::filesystem::remove(folder / "state_00000003" / "state.json");
  std::vector<std::string> skipped;
  const auto state = store.newest_valid(&skipped);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->vectors.at("weights"), std::vector<float>(4, 2.0F));
  ASSERT_EQ(skipped.size(), 2U);
  EXPECT_NE(skipped[0].find("state_00000004/weights.f32' is damaged"), std::string::npos);
  EXPECT_NE(skipped[1].find("state_00000003/state.json' does not exist"), std::string::npos);
}

TEST(StateStore, RefusesStatesWithoutAStep) {
  const TemporaryFolder folder;
  EXPECT_THROW(StateStore(folder.path(), 0), std::invalid_argument);
  EXPECT_THROW(StateStore(folder.path(), 1).save({}), std::invalid_argument);
  State state;
  state.scalars["step"] = 1.5;
  EXPECT_THROW(StateStore(folder.path(), 1).save(state), std::invalid_argument);
  EXPECT_EQ(folder.count(), 0U);
}

// A deletion that ends half-way must not leave half a state under its name.
TEST(StateStore, DeletesAnOldStateAsAWhole) {
  const TemporaryFolder folder;
  const StateStore store(folder.path(), 1);
  store.save(at(1));
  deletions_left = 1;  // of the two files of a state
  EXPECT_THROW(store.save(at(2)), std::runtime_error);
  deletions_left = std::numeric_limits<int>::max();
  const auto left = store.list();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].filename(), "state_00000002");
  EXPECT_EQ(folder.count(), 2U) << "the rest of the old one, under another name";
  store.save(at(3));
  EXPECT_EQ(folder.count(), 1U);
}

// The child writes 64 MB states until it is killed, in the middle of one of them.
TEST(StateStore, SurvivesAKillDuringASave) {
  const TemporaryFolder folder;
  const StateStore store(folder.path(), 100);
  store.save(at(0));
  const pid_t child = fork();
  if (child == 0) {
    for (std::int64_t step = 1;; ++step) store.save(at(step, 16 << 20));
  }
  const auto temporary_there = [&] {
    for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
      if (item.path().extension() == ".tmp") return true;
    }
    return false;
  };
  while (!temporary_there()) usleep(100);
  usleep(5000);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto complete = store.list();
  for (const auto& path : complete) EXPECT_NO_THROW(read_state(path)) << path;
  store.save(at(1000));
  EXPECT_EQ(folder.count(), complete.size() + 1) << "the leftover is gone";
}

}  // namespace
}  // namespace dimred::checkpoints
