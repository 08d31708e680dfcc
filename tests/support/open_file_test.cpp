#include "support/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "support/atomic_file.h"
#include "support/file_lock.h"
#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

namespace fs = std::filesystem;

/// All that writes or locks `<folder>/name`, its temporary file included.
std::vector<std::function<void(const fs::path&)>> writers() {
  return {[](const auto& path) { write_file_atomically(path, "text"); },
          [](const auto& path) { AtomicFile(path, AtomicFile::Join{}).write_at(0, {}); },
          [](const auto& path) { FileLock(path.string() + ".tmp").take(LockKind::exclusive); },
          [](const auto& path) { open_output(path.string() + ".tmp", std::ios::trunc) << "text"; },
          [](const auto& path) { open_output(path.string() + ".tmp", std::ios::app) << "text"; },
          [](const auto& path) { truncate_file(path.string() + ".tmp", 0); }};
}

TEST(OpenFile, NothingIsWrittenThroughALink) {
  const TemporaryFolder folder;
  put_file(folder / "outside", "precious");
  fs::create_symlink("outside", folder / "name.tmp");
  for (const auto& write : writers()) {
    const auto text = thrown<std::runtime_error>([&] { write(folder / "name"); });
    EXPECT_NE(text.find("name.tmp' is a link, but dimred does not write through links"),
              std::string::npos)
        << text;
    EXPECT_EQ(text_of_file(folder / "outside"), "precious");
    EXPECT_EQ(folder.count(), 2U);
  }
  fs::remove(folder / "outside");
  for (const auto& write : writers()) {
    EXPECT_THROW(write(folder / "name"), std::runtime_error);
    EXPECT_FALSE(fs::exists(folder / "outside"));
  }
}

/// A Python program may close its standard error and print a warning while a file is written.
TEST(OpenFile, TakesTheNumberOfNoStandardStream) {
  const TemporaryFolder folder;
  const int error = ::dup(STDERR_FILENO);
  ASSERT_EQ(::close(STDERR_FILENO), 0);
  const Descriptor opened(open_retrying(folder / "name", O_WRONLY | O_CREAT));
  const auto printed = ::write(STDERR_FILENO, "text", 4);
  ASSERT_EQ(::dup2(error, STDERR_FILENO), STDERR_FILENO);
  ::close(error);
  EXPECT_EQ(printed, -1);
  EXPECT_GT(opened, STDERR_FILENO);
  EXPECT_EQ(text_of_file(folder / "name"), "");
}

TEST(OpenFile, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "name.tmp").c_str(), 0600), 0);
  for (const auto& write : writers()) EXPECT_THROW(write(folder / "name"), std::runtime_error);
}

TEST(OpenFile, ALinkInTheFinalPlaceIsNeitherReplacedNorFollowed) {
  const TemporaryFolder folder;
  put_file(folder / "outside", "precious");
  fs::create_symlink("outside", folder / "name");
  EXPECT_THROW(write_file_atomically(folder / "name", "text"), std::invalid_argument);
  EXPECT_TRUE(fs::is_symlink(folder / "name"));
  EXPECT_EQ(text_of_file(folder / "outside"), "precious");
}

TEST(OpenFile, StreamsTruncateAppendAndCut) {
  const TemporaryFolder folder;
  open_output(folder / "a", std::ios::trunc) << "one";
  open_output(folder / "a", std::ios::app) << " two";
  EXPECT_EQ(text_of_file(folder / "a"), "one two");
  truncate_file(folder / "a", 5);
  EXPECT_EQ(text_of_file(folder / "a"), "one t");
  open_output(folder / "a", std::ios::trunc) << "x";
  EXPECT_EQ(text_of_file(folder / "a"), "x");
}

TEST(OpenFile, FoldersInsideAnotherAreNoLinks) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "elsewhere");
  fs::create_directory_symlink("elsewhere", folder / "root");  // the user's own
  create_folders_inside(folder / "root", folder / "root/a/b");
  create_folders_inside(folder / "root", folder / "root");
  EXPECT_TRUE(fs::is_directory(folder / "elsewhere/a/b"));
  for (const auto* target : {"..", "nowhere"}) {
    fs::remove(folder / "root/a/link");
    fs::create_directory_symlink(target, folder / "root/a/link");
    for (const auto* name : {"root/a/link", "root/a/link/new"}) {
      const auto text = thrown<std::runtime_error>(
          [&] { create_folders_inside(folder / "root", folder / name); });
      EXPECT_NE(text.find("a/link' is a link"), std::string::npos) << text;
    }
    EXPECT_FALSE(fs::exists(folder / "elsewhere/new") || fs::exists(folder / "nowhere"));
  }
}

}  // namespace
}  // namespace dimred
