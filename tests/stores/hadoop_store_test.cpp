#include "stores/hadoop_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "stores/download.h"
#include "stores/listing.h"
#include "stores/upload.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const Url data = parse_url("hdfs://data/data");

/// A store whose client is a shell script.
std::unique_ptr<Store> store_of(const TemporaryFolder& folder, const std::string& script) {
  auto options = quick(1);
  options.hadoop = folder.write("hadoop", "#!/bin/sh\n" + script);
  fs::permissions(options.hadoop, fs::perms::owner_all);
  return make_hadoop_store(options);
}

std::string store_error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Passing& error) {
    return formatted("passing: {}", error.what());
  } catch (const StoreError& error) {
    return error.what();
  }
  return "";
}

TEST(Hadoop, LinesOfAListAreReadFromTheDateOn) {
  const TemporaryFolder folder;
  const auto store =
      store_of(folder,
               "cat <<'E'\n"
               "drwxr-xr-x   - me group          0 2024-01-02 03:04 hdfs://data/data/sub\n"
               "-rw-r--r--   3 me domain users 12 2024-01-02 03:04 hdfs://data/data/a b\n"
               "-rw-r--r--+  1 me g 7 2024-01-02 03:05 /data/sub/data/x 1 2024-01-02 03:04 y\n"
               "E\n");
  const auto items = store->list(data);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].name, "a b");
  EXPECT_EQ(items[0].size, 12);
  EXPECT_EQ(items[0].etag, "2024-01-02 03:04");
  EXPECT_EQ(items[1].name, "sub/data/x 1 2024-01-02 03:04 y");
  EXPECT_EQ(items[1].size, 7);
  EXPECT_THROW(parse_hadoop_line("-rw-r--r-- 3 me g 12 2024-01-02 03:04 /other/a", data),
               StoreError);
  EXPECT_THROW(parse_hadoop_line("WARN what is this", data), StoreError);
}

TEST(Hadoop, AFileOfThisMinuteIsNotKnownAgain) {
  const TemporaryFolder folder;
  const auto store = store_of(folder,
                              "for t in now '2 minutes ago'; do\n"
                              "echo \"-rw-r--r-- 1 me g 4 $(date -d \"$t\" '+%Y-%m-%d %H:%M') "
                              "/data/$(echo $t | cut -c1)\"\ndone\n");
  const auto items = store->list(data);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_NE(items[0].etag, "");  // of two minutes ago
  EXPECT_EQ(items[1].etag, "");
}

TEST(Hadoop, OnlyTheCommandItselfSaysThatNothingIsThere) {
  const TemporaryFolder folder;
  const auto there = store_of(folder,
                              "echo 'WARN util' >&2\n"
                              "echo \"${2#-}: \\`$5': No such file or directory\" >&2\nexit 1\n");
  EXPECT_FALSE(there->stat(data));
  EXPECT_TRUE(there->list(data).empty());
  const auto broken = store_of(
      folder,
      "echo '/opt/hadoop/bin/hadoop: line 9: java: No such file or directory' >&2\nexit 127\n");
  EXPECT_THAT(store_error_of([&] { broken->list(data); }), HasSubstr("line 9: java"));
  EXPECT_THAT(store_error_of([&] { broken->stat(data); }), HasSubstr("line 9: java"));
}

TEST(Hadoop, AFilesNameIsNoReason) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& text) {
    const auto store = store_of(folder, "echo \"ls: " + text + "\" >&2; exit 1\n");
    return store_error_of([&] { store->list(parse_url("hdfs://h/quota/GSS/Connect")); });
  };
  EXPECT_EQ(said("hdfs://h/quota/GSS/Connect is odd"),
            "[stores] cannot list hdfs://h/quota/GSS/Connect: hdfs://h/quota/GSS/Connect is odd");
  EXPECT_THAT(said("The DiskSpace quota of /x is exceeded"), HasSubstr("the quota is full"));
  EXPECT_THAT(said("Permission denied: user=me, inode=/quota"), HasSubstr("credentials"));
  EXPECT_THAT(said("Connection refused"), HasSubstr("passing: "));
}

TEST(Hadoop, AnEndThatTheSystemDoesNotTellIsNoSuccess) {
  const TemporaryFolder folder;
  const auto store = store_of(folder, "exit 1\n");
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_THAT(thrown<std::runtime_error>([&] { store->list(data); }),
              HasSubstr("this process ignores SIGCHLD"));
  std::signal(SIGCHLD, before);
}

/// Five listed files, and a client that breaks off in the midst of the fourth.
TEST(Hadoop, WhatIsWholeStaysWhenALaterFileFails) {
  const TemporaryFolder folder;
  Files files;
  for (const auto* name : {"1", "2", "3", "4", "5"}) files[name] = std::string(1000, *name);
  make_files(folder / "files", files);
  // As an upload leaves it; read by plain commands.
  upload(
      folder / "files", parse_url("file://" + (folder / "there").string()), quick(), Sending::run);
  const std::string script = "there=" + (folder / "there").string() + R"sh(
command=$2; shift 2
case $command in
-stat) echo "directory|0|0";;
-ls) cd $there; for f in *; do echo "-rw-r--r-- 1 me g $(stat -c %s $f) 2024-01-02 03:04 /data/$f"; done;;
-cat) if [ $# -gt 1 ]; then echo "$@" >> $there/../asked; fi
  for f in "$@"; do
    if [ "${f##*/}" = "$(cat $there/../broken)" ]; then echo half; echo 'cat: Input/output error' >&2; exit 1; fi
    cat $there/${f##*/}
  done;;
esac
)sh";
  const auto store = store_of(folder, script);
  folder.write("broken", "4");
  EXPECT_THAT(store_error_of([&] { download(*store, data, folder / "got"); }),
              HasSubstr("Input/output error"));
  for (const auto* name : {"1", "2", "3"})
    EXPECT_EQ(text_of_file(folder / "got" / name), files[name]);
  EXPECT_FALSE(fs::exists(folder / "got/4"));
  folder.write("broken", "none");
  folder.write("asked", "");
  EXPECT_EQ(download(*store, data, folder / "got").present, 3);
  EXPECT_EQ(files_of(folder / "got"), files);
  EXPECT_EQ(text_of_file(folder / "asked"), "hdfs://data/data/4 hdfs://data/data/5\n");
}

}  // namespace
}  // namespace dimred::stores
