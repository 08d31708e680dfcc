#include "stores/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <optional>

#include "stores/journal.h"
#include "stores/local_files.h"
#include "stores/upload.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/file_lock.h"
#include "tests/stores/memory_store.h"
#include "tests/stores/shared_store.h"

namespace dimred::stores {
namespace {

using testing::HasSubstr;

const Url file = parse_url("s3://bucket/data/a.bin");
const Url folder_url = parse_url("s3://bucket/data");

TEST(Journal, KnowsWhatWasBroughtAndClearsAwayWhatIsGone) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.objects = {{"/data/a", "a"}, {"/data/b", "b"}, {"/data/c", "c"}};
  const auto bring_once = [&] {
    const auto wanted = placed_at(folder_url, find(store, folder_url), folder / "got");
    std::filesystem::create_directories(folder / "got");
    Journal journal(folder / "journal", folder / "got");
    journal.make_room(wanted);
    const auto done = bring_files(store, wanted, &journal);
    journal.settle(wanted);
    return done;
  };
  EXPECT_EQ(bring_once().files, 3);
  EXPECT_EQ(bring_once().present, 3);
  std::ofstream(folder / "got/own") << "ours";
  store.objects["/data/b"] = "B";
  store.objects.erase("/data/c");
  EXPECT_EQ(bring_once().files, 1);
  EXPECT_EQ(files_of(folder / "got"), (Files{{"a", "a"}, {"b", "B"}, {"own", "ours"}}));
  std::ofstream(folder / "got/a") << "spoilt";
  EXPECT_EQ(bring_once().files, 1);
  EXPECT_EQ(text_of_file(folder / "got/a"), "a");
}

TEST(Journal, WhatOnlyADigestTellsIsReadOnce) {
  const TemporaryFolder folder;
  const auto text = folder.write("a", "text");
  const auto all = std::vector<Wanted>{{{{"a", 4, "digest"}, file, file_digest(text)}, text}};
  EXPECT_TRUE(Journal(folder / "journal", folder.path()).knows_just(all));
  // Only who reads the file would see that it is another.
  const auto time = std::filesystem::last_write_time(text);
  folder.write("a", "TEXT");
  std::filesystem::last_write_time(text, time);
  EXPECT_TRUE(Journal(folder / "journal", folder.path()).knows_just(all));
  folder.write("a", "tEXT");
  std::filesystem::last_write_time(text, time + std::chrono::seconds(1));
  EXPECT_FALSE(Journal(folder / "journal", folder.path()).knows_just(all));
}

TEST(Journal, ALineThatWasCutIsNone) {
  const TemporaryFolder folder;
  const Wanted one{{{"a", 1, "tag"}, file, ""}, folder / "a"};
  const Wanted other{{{"b", 1, "tag"}, file, ""}, folder / "b"};
  std::ofstream(folder / "a") << "a";
  std::ofstream(folder / "b") << "b";
  Journal(folder / "journal", folder.path()).note(one);
  std::ofstream(folder / "journal", std::ios::app) << R"({"name":"x","si)";
  Journal(folder / "journal", folder.path()).note(other);
  const Journal journal(folder / "journal", folder.path());
  EXPECT_TRUE(journal.knows(one));
  EXPECT_TRUE(journal.knows(other));
}

/// A cache of its own for the folder "data", at a URL.
struct Cache : testing::Test {
  Cache() { options.cache = folder / "cache"; }
  const TemporaryFolder folder;
  StoreOptions options = quick(1);
  const Url url = parse_url("file://" + (folder / "data").string());
};

/// The copy that another process gets, which then goes on.
struct Reader {
  pid_t process;
  std::string path;
  Reader(const Url& url, const StoreOptions& options) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process = fork();
    if (process == 0) {
      const auto got = bring(url, options).path.string();
      [[maybe_unused]] const auto written = write(ends[1], got.data(), got.size());
      close(ends[1]);
      pause();
    }
    close(ends[1]);
    char part[1000];
    for (ssize_t size = 0; (size = read(ends[0], part, sizeof part)) > 0;) path.append(part, size);
    close(ends[0]);
  }
  ~Reader() {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
};

/// Whether a thread waits for the lock of the file.
bool somebody_waits_for(const std::filesystem::path& lock) {
  struct stat state {};
  if (::stat(lock.c_str(), &state) != 0) return false;
  const auto inode = formatted(":{} ", state.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("->") != std::string::npos && line.find(inode) != std::string::npos) return true;
  return false;
}

TEST_F(Cache, AFailureIsTheSameForWhoeverWaitedAndNotForTheNext) {
  EXPECT_THAT(error_of([&] { bring(url, options); }), HasSubstr("found no file at file://"));
  make_files(folder / "data", {{"x", "x"}});
  const auto entry = cache_paths_of(url, "inputs", options).entry;
  write_file_atomically(entry / "answer.json", R"({"text": "[stores] for those who waited"})");
  const Reader other(url, options);
  EXPECT_EQ(files_of(other.path), (Files{{"x", "x"}}));
  // As if another process had answered while this one waited for it.
  const auto answered = [&](const std::string& text) {
    std::optional<FileLock> lock(std::in_place, entry / "lock");
    lock->take(LockKind::exclusive);
    auto brought = std::async(std::launch::async, [&] { return bring(url, options).path; });
    EXPECT_TRUE(becomes([&] { return somebody_waits_for(entry / "lock"); }));
    write_file_atomically(entry / "answer.json", text);
    lock.reset();
    return brought.get();
  };
  EXPECT_EQ(error_of([&] { answered(R"({"text": "[stores] said before"})"); }),
            "[stores] said before");
  EXPECT_THROW(answered(R"({"text": "[stores] bad", "fault": "input"})"), std::invalid_argument);
  std::filesystem::remove_all(folder / "data");  // is not asked again
  EXPECT_EQ(answered(R"({"copy": 1})"), other.path);
}

TEST_F(Cache, AnIndexAloneBringsNoWeights) {
  const auto text = [](const char* url) { return error_of([&] { bring(parse_url(url), {}); }); };
  for (const auto* url : {"file:///a/model.safetensors.index.json", "s3://b/step_1/.metadata"})
    EXPECT_THAT(text(url), HasSubstr("needs the URL of the folder, because ")) << url;
}

TEST_F(Cache, ACopyThatSomebodyReadsStaysAsItIs) {
  make_files(folder / "data", {{"x", "old"}, {"gone", "g"}});
  {
    const Reader first(url, options);
    EXPECT_EQ(files_of(first.path), (Files{{"x", "old"}, {"gone", "g"}}));
    const Reader second(url, options);
    EXPECT_EQ(second.path, first.path);
    make_files(folder / "data", {{"x", "newer"}});
    const Reader third(url, options);
    EXPECT_NE(third.path, first.path);
    EXPECT_EQ(files_of(third.path), (Files{{"x", "newer"}}));
    EXPECT_EQ(files_of(first.path), (Files{{"x", "old"}, {"gone", "g"}}));
    const Reader fourth(url, options);
    EXPECT_EQ(fourth.path, third.path);
  }
  make_files(folder / "data", {{"x", "newest"}});
  const Reader last(url, options);  // nobody is left
  EXPECT_EQ(files_of(last.path), (Files{{"x", "newest"}}));
  EXPECT_EQ(std::filesystem::path(last.path).parent_path().filename(), "content");
}

/// The copy of a process that ends then.
Files brought(const Url& url, const StoreOptions& options) {
  const Reader reader(url, options);
  EXPECT_EQ(std::filesystem::path(reader.path).parent_path().filename(), "content");
  return std::filesystem::is_directory(reader.path) ? files_of(reader.path)
                                                    : Files{{"", text_of_file(reader.path)}};
}

TEST_F(Cache, WhatIsDeletedThereGoesHere) {
  make_files(folder / "data", {{"x", "x"}, {"gone", "g"}});
  EXPECT_EQ(brought(url, options).size(), 2U);
  std::filesystem::remove(folder / "data/gone");
  EXPECT_EQ(brought(url, options), (Files{{"x", "x"}}));
}

TEST_F(Cache, CachesThatLieThereStayThere) {
  make_files(folder / "data", {{"x", "x"}, {".dimred/a", "a"}, {"sub/.dimred/b", "b"}});
  EXPECT_EQ(brought(url, options), (Files{{"x", "x"}}));
}

TEST_F(Cache, AFileBecomesAFolderAndTheOtherWayRound) {
  folder.write("data", "a file");
  EXPECT_EQ(brought(url, options), (Files{{"", "a file"}}));
  for (const auto& files : {Files{{"a", "1"}, {"b/c", "2"}},
                            Files{{"a/x/y", "3"}, {"b", "4"}},
                            Files{{"a", "5"}, {"b/c", "6"}}}) {
    make_files(folder / "data", files);
    EXPECT_EQ(brought(url, options), files);
  }
  std::filesystem::remove_all(folder / "data");
  folder.write("data", "a file again");
  EXPECT_EQ(brought(url, options), (Files{{"", "a file again"}}));
}

TEST_F(Cache, WhatAKilledDownloadBeganGoesWhenNobodyWantsItAnyMore) {
  make_files(folder / "data", {{"stays", "s"}, {"a.part", "theirs"}});
  brought(url, options);
  const auto content = cache_paths_of(url, "inputs", options).content;
  for (const auto* name : {"stays.part", "stays.part.of", "gone.part", "gone.part.of", "z.part.of"})
    std::ofstream(content / name) << "half";
  std::ofstream(folder / "data/new") << "n";
  EXPECT_EQ(brought(url, options), (Files{{"stays", "s"}, {"a.part", "theirs"}, {"new", "n"}}));
}

TEST_F(Cache, AProcessIsGivenTheSameCopyAgain) {
  make_files(folder / "data", {{"x", "old"}});
  const auto got = bring(url, options).path;
  make_files(folder / "data", {{"x", "newer"}});
  EXPECT_EQ(bring(url, options).path, got);
  EXPECT_EQ(files_of(got), (Files{{"x", "old"}}));
}

TEST_F(Cache, AFailureLeavesTheCopyToOthers) {
  make_files(folder / "local", {{"x", "good"}});
  upload(folder / "local", url, options, Sending::all);
  std::ofstream(folder / "data/x") << "evil";
  EXPECT_THAT(error_of([&] { bring(url, options); }), HasSubstr("does not match its digest"));
  std::ofstream(folder / "data/x") << "good";
  EXPECT_EQ(brought(url, options), (Files{{"x", "good"}}));
}

TEST_F(Cache, AMatrixComesWithWhatLiesBesideIt) {
  make_files(folder / "m", {{"pca_mat.npy", "matrix"}, {"pca_mat.json", "{}"}, {"other", ""}});
  const auto got = bring(parse_url("file://" + (folder / "m/pca_mat.npy").string()), options).path;
  EXPECT_EQ(files_of(got.parent_path()),
            (Files{{"pca_mat.npy", "matrix"}, {"pca_mat.json", "{}"}}));
}

}  // namespace
}  // namespace dimred::stores
