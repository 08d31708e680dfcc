#include "support/atomic_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "support/descriptor.h"
#include "support/result_file.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/words.h"

namespace {
bool disk_fails = false;
}

// In front of libc's, for one test.
extern "C" int ftruncate(int descriptor, off_t length) noexcept {
  static const auto real = reinterpret_cast<int (*)(int, off_t)>(dlsym(RTLD_NEXT, "ftruncate"));
  if (!disk_fails) return real(descriptor, length);
  errno = EIO;
  return -1;
}

namespace dimred::checkpoints {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  {
    AtomicFile file(path);
    file.append(bytes("ab"));
    file.append(bytes("cd"));
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_GE(file.commit(), 0);
    EXPECT_EQ(text_of_file(path), "abcd");
  }
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseWhenAbandoned) {
  const TemporaryFolder folder;
  put_file(folder / "file", "old");
  { AtomicFile(folder / "file").append(bytes("new and longer")); }
  EXPECT_EQ(text_of_file(folder / "file"), "old");
  EXPECT_EQ(folder.count(), 1U);
}

/// Each stands for a kind that a rename would destroy; a device, where this process may make one.
TEST(AtomicFile, ReplacesNothingButFiles) {
  const TemporaryFolder folder;
  const auto is_refused = [&](const char* name) {
    const auto text = thrown<std::invalid_argument>([&] { AtomicFile file(folder / name); });
    return text.find("would be replaced") != std::string::npos ||
           text.find("is a folder") != std::string::npos;
  };
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  put_file(folder / "target", "kept");
  std::filesystem::create_symlink("target", folder / "link");
  EXPECT_TRUE(is_refused("fifo"));
  EXPECT_TRUE(is_refused("link"));
  std::filesystem::create_directory(folder / "folder");
  EXPECT_TRUE(is_refused("folder"));
  if (mknod((folder / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    EXPECT_TRUE(is_refused("null"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
  EXPECT_EQ(text_of_file(folder / "target"), "kept");
}

ResultPlace place(const std::filesystem::path& path) {
  return {.path = path, .option = "--csv", .mark = {.what = "table", .text = "a,b\n"}};
}

TEST(WriteResult, GoesWhereThePathLeads) {
  const TemporaryFolder folder;
  write_result(place(folder / "file"), "a,b\n1");
  EXPECT_EQ(text_of_file(folder / "file"), "a,b\n1");
  std::filesystem::create_symlink("file", folder / "link");
  write_result(place(folder / "link"), "a,b\nbehind the link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(text_of_file(folder / "file"), "a,b\nbehind the link");
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::string read;
  std::jthread reader([&] { read = text_of_file(folder / "fifo"); });
  write_result(place(folder / "fifo"), "through the pipe");
  reader.join();
  EXPECT_EQ(read, "through the pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
  write_result(place("/dev/null"), "gone");
  const Descriptor opened(open_no_follow(folder / "open", O_RDWR | O_CREAT));
  write_result(place("/dev/fd/" + std::to_string(opened)), "a");
  write_result(place("/proc/self/fd/" + std::to_string(opened)), "b");
  EXPECT_EQ(text_of_file(folder / "open"), "ab");
  EXPECT_THROW(write_result(place(folder.path()), "x"), std::invalid_argument);
  EXPECT_THROW(require_result_place(place(folder / "none/file")), std::invalid_argument);
}

/// A file that would be lost is named, and stays.
TEST(WriteResult, ReplacesAnEarlierOutputAlone) {
  const TemporaryFolder folder;
  const auto refusal = [&](const ResultPlace& place) {
    const auto before = text_of_file(place.path);
    auto text = thrown<std::invalid_argument>([&] { write_result(place, "a,b\nnew"); });
    EXPECT_EQ(text_of_file(place.path), before);
    EXPECT_THAT(text, HasSubstr("choose another --csv"));
    return text;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_THAT(text, HasSubstr(part));
  };
  auto at = place(folder / "table");
  write_result(at, "a,b\nold");
  write_result(at, "a,b\nnew");
  EXPECT_EQ(text_of_file(at.path), "a,b\nnew");
  at.inputs = {folder / "other", folder / "table"};
  has(refusal(at), "is an input");
  at.overwrite = true;
  has(refusal(at), "is an input");
  at.inputs.clear();
  write_result(at, "a,b\nonce more");
  at.overwrite = false;
  has(refusal(at), "exists already; choose another --csv or give --overwrite");
  for (const auto* text : {"a,b", "x a,b\n", "\x89PNG", " "}) {
    put_file(folder / "photo", text);
    at = place(folder / "photo");
    has(refusal(at),
        "exists already and is not an earlier table; choose another --csv or remove this file");
    at = place(folder / "link");
    std::filesystem::remove(at.path);
    std::filesystem::create_symlink("photo", at.path);
    has(refusal(at), "is not an earlier table");
  }
  at.overwrite = true;
  write_result(at, "a,b\n2");  // asked for
  EXPECT_EQ(text_of_file(folder / "photo"), "a,b\n2");
  put_file(folder / "photo", "");
  write_result(place(folder / "photo"), "a,b\n");  // nothing to lose
  put_file(folder / "late", "words, a,b\n");
  at = place(folder / "late");
  has(refusal(at), "is not an earlier table");
  at.mark.within = 20;
  write_result(at, "a,b\n");
  at.mark = {};
  has(refusal(at), "exists already; choose another --csv or remove this file");
}

/// The name of the temporary file may be a user's.
TEST(WriteResult, ReplacesNoOtherTemporaryFile) {
  const TemporaryFolder folder;
  auto at = place(folder / "table");
  for (const bool there : {false, true}) {
    if (there) write_result(at, "a,b\nold");
    at.overwrite = there ? std::optional(true) : std::nullopt;
    put_file(folder / "table.tmp", "notes of a user");
    const auto text = thrown<std::invalid_argument>([&] { write_result(at, "a,b\nnew"); });
    EXPECT_NE(text.find("table.tmp', but another file has this temporary name"), std::string::npos);
    EXPECT_EQ(text_of_file(folder / "table.tmp"), "notes of a user");
    put_file(folder / "table.tmp", std::string(4096, '\0'));
    EXPECT_THROW(write_result(at, "a,b\nnew"), std::invalid_argument);
    for (const off_t size : {0, 4096})  // as a killed start reserves it
      ASSERT_EQ(retrying([&] { return ::truncate((folder / "table.tmp").c_str(), size); }), 0);
    write_result(at, "a,b\nold");
    EXPECT_FALSE(std::filesystem::exists(folder / "table.tmp"));
  }
  EXPECT_EQ(text_of_file(at.path), "a,b\nold");
  std::filesystem::create_symlink("table", folder / "link");
  put_file(folder / "table.tmp", "notes of a user");
  at.path = folder / "link";
  EXPECT_THROW(write_result(at, "a,b\nnew"), std::invalid_argument);
  // What a killed start has left.
  for (const auto* left : {"", "a,b\n1"}) {
    put_file(folder / "table.tmp", left);
    write_result(at, "a,b\nnew");
    EXPECT_EQ(text_of_file(folder / "table"), "a,b\nnew");
    EXPECT_FALSE(std::filesystem::exists(folder / "table.tmp"));
  }
}

TEST(WriteResult, LeavesRunsAlone) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run/snapshots/part");
  std::filesystem::create_directories(folder / "run/export");
  std::filesystem::create_directories(folder / "run/best");
  for (const auto* name : {"config.toml", "manifest.json"})
    put_file(folder / "run" / name, "a,b\n");
  for (const auto& name : words("config.toml curve.csv snapshots/new snapshots/part/new .lock "
                                "final.h5 start.h5 ema.h5 model.pt frozen.safetensors "
                                "initialization.json best/new")) {
    auto at = place(folder / "run" / name);
    at.overwrite = true;
    EXPECT_THAT(thrown<std::invalid_argument>([&] { write_result(at, "x"); }),
                HasSubstr("a part of the run"))
        << name;
    EXPECT_THROW(require_outside_runs(at.path, "--output"), std::invalid_argument);
  }
  for (const auto* name : {"table.csv", "export/curve.csv", "export/new", "export/model.pt"})
    write_result(place(folder / "run" / name), "x");
  std::filesystem::create_symlink("run/snapshots", folder / "way");
  EXPECT_THROW(require_outside_runs(folder / "way/new", "--output"), std::invalid_argument);
  std::filesystem::create_directory(folder / "snapshots");  // of no run
  write_result(place(folder / "snapshots/new"), "x");
  write_result(place(folder / "curve.csv"), "x");
  write_result(place(folder / "final.h5"), "x");
}

TEST(AtomicFile, LeavesNothingWhenItCannotEvenStart) {
  const TemporaryFolder folder;
  disk_fails = true;
  const auto text = thrown<std::runtime_error>([&] { AtomicFile file(folder / "file"); });
  disk_fails = false;
  EXPECT_THAT(text, HasSubstr("[file] ftruncate '"));
  EXPECT_EQ(folder.count(), 0U);
}

TEST(AtomicFile, OverwritesWhatAKilledWriterLeft) {
  const TemporaryFolder folder;
  put_file(folder / "file.tmp", "much longer than the new text");
  write_file_atomically(folder / "file", "new");
  EXPECT_EQ(text_of_file(folder / "file"), "new");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, RefusesASecondWriterOfTheSameName) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "file");
  first.append(bytes("first"));
  EXPECT_THAT(thrown<std::runtime_error>([&] { AtomicFile second(folder / "file"); }),
              HasSubstr("another program or thread"));
  first.commit();
  EXPECT_EQ(text_of_file(folder / "file"), "first");
}

TEST(AtomicFile, TakesPositionedWritesFromSeveralThreads) {
  const TemporaryFolder folder;
  constexpr int test_threads = 4, block_size = 1 << 16;
  AtomicFile file(folder / "file");
  file.reserve(test_threads * block_size);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < test_threads; ++i) {
      threads.emplace_back([&file, i] {
        const std::string block(block_size, static_cast<char>('a' + i));
        file.write_at(std::int64_t{i} * block_size, bytes(block));
      });
    }
  }
  file.commit();
  std::string expected;
  for (int i = 0; i < test_threads; ++i)
    expected += std::string(block_size, static_cast<char>('a' + i));
  EXPECT_EQ(text_of_file(folder / "file"), expected);
}

TEST(AtomicFile, IsWrittenByThoseWhoJoinAndCommittedByItsCreator) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  EXPECT_THAT(thrown<std::runtime_error>([&] { AtomicFile(path, AtomicFile::Join{}); }),
              HasSubstr("[file] open '" + path.string() + ".tmp'"));
  AtomicFile file(path);
  file.append(bytes("ab"));
  file.reserve(6);
  {
    AtomicFile part(path, AtomicFile::Join{});  // the creator's lock does not keep it out
    part.write_at(2, bytes("cdef"));
    EXPECT_GE(part.sync(), 0);
    EXPECT_THROW(part.commit(), std::logic_error);
  }
  EXPECT_EQ(text_of_file(folder / "file.tmp"), "abcdef");
  file.commit();
  EXPECT_EQ(text_of_file(path), "abcdef");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, NamesCallPathAndErrorWhenItFails) {
  const TemporaryFolder folder;
  const std::string text =
      thrown<std::runtime_error>([&] { AtomicFile file(folder / "missing" / "file"); });
  EXPECT_THAT(text, HasSubstr("open"));
  EXPECT_THAT(text, HasSubstr("missing/file"));
  EXPECT_THAT(text, HasSubstr("No such file or directory (errno 2)"));
}

// A limit on the size of files stands for a full disk: write and fallocate fail in the same way.
TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  put_file(folder / "file", "old");
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string big(1 << 17, 'x');
  const auto write =
      thrown<std::runtime_error>([&] { AtomicFile(folder / "file").append(bytes(big)); });
  const auto reserve =
      thrown<std::runtime_error>([&] { AtomicFile(folder / "file").reserve(1 << 17); });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(write, HasSubstr("[file] write '"));
  EXPECT_THAT(reserve, HasSubstr("[file] fallocate '"));
  EXPECT_EQ(text_of_file(folder / "file"), "old");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, AKilledWriterLeavesNothingUnderTheFinalName) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder / "snapshot_1.h5");
    file.append(bytes("half of it"));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(folder / "snapshot_1.h5"));
  EXPECT_EQ(text_of_file(folder / "snapshot_1.h5.tmp"), "half of it");
  remove_stale_temporaries(folder.path(), "snapshot_");
  EXPECT_EQ(folder.count(), 0U);
}

TEST(AtomicFile, StaleFilesAreThoseNobodyWrites) {
  const TemporaryFolder folder;
  AtomicFile living(folder / "snapshot_2.h5");
  put_file(folder / "snapshot_1.h5.tmp", "stale");
  put_file(folder / "other.tmp", "not ours");
  remove_stale_temporaries(folder.path(), "snapshot_");
  EXPECT_FALSE(std::filesystem::exists(folder / "snapshot_1.h5.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "snapshot_2.h5.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "other.tmp"));
}

TEST(CreateFolders, MakesMissingParentsAndRefusesAFileInTheWay) {
  const TemporaryFolder folder;
  EXPECT_TRUE(create_folders(folder / "a" / "b"));
  EXPECT_FALSE(create_folders(folder / "a" / "b"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a" / "b"));
  put_file(folder / "file", "");
  EXPECT_THROW(create_folders(folder / "file"), std::runtime_error);
}

TEST(InputFile, RefusesMissingFilesAndFolders) {
  const TemporaryFolder folder;
  EXPECT_THAT(thrown<std::invalid_argument>([&] { InputFile(folder / "none"); }),
              HasSubstr("does not exist"));
  EXPECT_THAT(thrown<std::invalid_argument>([&] { InputFile{folder.path()}; }),
              HasSubstr("regular file"));
}

TEST(InputFile, ReadsAtAnyOffsetAndReportsAnEarlyEnd) {
  const TemporaryFolder folder;
  put_file(folder / "file", "0123456789");
  InputFile first(folder / "file");
  const InputFile file(std::move(first));
  EXPECT_EQ(file.size(), 10);
  std::string part(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "3456");
  const auto text =
      thrown<std::runtime_error>([&] { file.read(8, std::as_writable_bytes(std::span(part))); });
  EXPECT_THAT(text, HasSubstr("ends at byte 10, 2 bytes too early"));
}

}  // namespace
}  // namespace dimred::checkpoints
