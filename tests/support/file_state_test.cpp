#include "support/file_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/atomic_file.h"
#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::StartsWith;

TEST(FileGuard, SeesWhatIsWrittenAndReplaced) {
  const TemporaryFolder folder;
  const auto file = folder / "b";
  const std::vector<std::function<void()>> changes{
      [&] { put_file(file, "longer"); },
      [&] { fs::last_write_time(file, fs::file_time_type{}); },
      [&] {
        put_file(folder / "new", "other");
        fs::rename(folder / "new", file);
      },
      [&] {
        put_file(folder / "new", "other");
        fs::remove(file);
        fs::create_symlink("new", file);
      }};
  for (const auto& change : changes) {
    fs::remove(file);
    put_file(folder / "a", "a");
    put_file(file, "b");
    const FileGuard guard({folder / "a", file});
    guard.require_unchanged("scope");
    change();
    const auto text = thrown<std::runtime_error>([&] { guard.require_unchanged("scope"); });
    EXPECT_THAT(text, StartsWith("[scope] '" + file.string() + "' has changed while it was read"));
  }
}

TEST(FileGuard, HoldsAFileThatIsOpenAgainstItsPath) {
  const TemporaryFolder folder;
  put_file(folder / "a", "a");
  const InputFile file(folder / "a");
  put_file(folder / "new", "other");
  fs::rename(folder / "new", folder / "a");
  FileGuard guard;
  guard.add(folder / "a", file.state());
  EXPECT_THROW(guard.require_unchanged("scope"), std::runtime_error);
}

TEST(FileGuard, LetsGoOfWhatIsGone) {
  const TemporaryFolder folder;
  put_file(folder / "a", "a");
  FileGuard guard({folder / "a"});
  guard.add(folder / "none");
  fs::remove(folder / "a");
  guard.require_unchanged("scope");
  EXPECT_THAT(guard.states(), StartsWith((folder / "a").string() + " 1 "));
  EXPECT_THAT(guard.states(), EndsWith((folder / "none").string() + " 0 0 0\n"));
}

TEST(FileState, IsNoneOfALinkInACircle) {
  const TemporaryFolder folder;
  fs::create_symlink("circle", folder / "circle");
  EXPECT_FALSE(file_state(folder / "circle"));
  EXPECT_FALSE(file_state(folder / "circle/below"));
}

}  // namespace
}  // namespace dimred
