#include "stores/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "stores/listing.h"
#include "support/digest.h"
#include "support/formatted.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

const Url place = parse_url("s3://bucket/run");

/// The files that a reader gets now, whose digests must be right; empty when it is told that there
/// is nothing whole. (download() itself would wait for the disk thousands of times.)
Files visible(MemoryStore& store) {
  Files files;
  try {
    for (const auto& found : find(store, place)) {
      const auto& text = store.objects.at(found.url.path);
      EXPECT_EQ(digest(std::as_bytes(std::span(text))), found.digest) << found.item.name;
      files[found.item.name] = text;
    }
  } catch (const Unfinished&) {
    return {};
  }
  return files;
}

/// Uploads `files`; false when it was killed after `changes` changes at the remote place.
bool upload_until(MemoryStore& store, const Files& files, std::int64_t changes) {
  static const TemporaryFolder folder;
  static std::map<Files, std::filesystem::path> runs;  // each written once
  auto& run = runs[files];
  if (run.empty()) {
    run = folder / std::to_string(runs.size());
    make_files(run, files);
  }
  store.changes_left = changes;
  bool whole = true;
  try {
    upload(store, run, place, Sending::run);
  } catch (const Killed&) {
    whole = false;
  }
  store.changes_left = -1;
  return whole;
}

// One that stays, one that changes with and one without its length, one that goes, one that comes.
const Files first{{"a", "stays"}, {"curve.csv", "1\n"}, {"m.json", "{1}"}, {"states/1", "one"}};
const Files second{{"a", "stays"}, {"curve.csv", "1\n2\n"}, {"m.json", "{2}"}, {"states/2", "two"}};
const Files third{
    {"a", "other"}, {"curve.csv", "1\n2\n3\n"}, {"m.json", "{3}"}, {"states/1", "eno"}};

/// Objects under the files' own names, and the listing: nothing else stays.
void expect_tidy(const MemoryStore& store, const Files& files) {
  Files objects;
  for (const auto& [path, text] : store.objects) objects[path.substr(place.path.size() + 1)] = text;
  EXPECT_EQ(objects.erase(complete_name), 1U);
  EXPECT_EQ(objects, files);
}

/// Runs on a store that replaces in one step, and on one that deletes first.
class KilledUpload : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Stores, KilledUpload, testing::Bool());

TEST_P(KilledUpload, AtAnyMomentLeavesTheEarlierFolderOrTheNewOne) {
  for (const auto& before : {Files(), first}) {
    bool killed = true;
    int moments = 0;
    for (std::int64_t changes = 0; killed; ++changes, ++moments) {
      MemoryStore store;
      store.deletes_first = GetParam();
      if (!before.empty()) {
        ASSERT_TRUE(upload_until(store, before, -1));
      }
      killed = !upload_until(store, second, changes);
      EXPECT_THAT(visible(store), testing::AnyOf(before, second)) << "after " << changes;
      if (!killed) {
        EXPECT_EQ(visible(store), second);
      }
      ASSERT_TRUE(upload_until(store, second, -1));
      EXPECT_EQ(visible(store), second) << "after " << changes;
      expect_tidy(store, second);
    }
    EXPECT_GT(moments, 6);
  }
}

TEST_P(KilledUpload, TwiceInARowIsAsSafe) {
  for (std::int64_t once = 0; once < 22; once += 3) {
    bool killed = true;
    for (std::int64_t twice = 0; killed; ++twice) {
      MemoryStore store;
      store.deletes_first = GetParam();
      ASSERT_TRUE(upload_until(store, first, -1));
      upload_until(store, second, once);
      const auto between = visible(store);
      killed = !upload_until(store, third, twice);
      EXPECT_THAT(visible(store), testing::AnyOf(between, third)) << once << ' ' << twice;
      ASSERT_TRUE(upload_until(store, second, -1));
      EXPECT_EQ(visible(store), second) << once << ' ' << twice;
      expect_tidy(store, second);
    }
  }
}

TEST(Upload, SendsOnlyWhatChanged) {
  MemoryStore store;
  upload_until(store, first, -1);
  store.puts = 0;
  upload_until(store, first, -1);
  EXPECT_EQ(store.puts, 0);
  auto more = first;
  more["states/2"] = "two";
  upload_until(store, more, -1);
  EXPECT_EQ(store.puts, 3);  // the file and the two listings
}

TEST(Upload, AFirstOneThatWasKilledGoesOnWhereItStopped) {
  MemoryStore store;
  EXPECT_FALSE(upload_until(store, first, 4));  // _INCOMPLETE and three of four files
  store.puts = 0;
  EXPECT_TRUE(upload_until(store, first, -1));
  EXPECT_EQ(store.puts, 3);  // the fourth file and the listings
}

TEST(Upload, ATemporaryFileOrHiddenOneStaysHere) {
  MemoryStore store;
  auto files = first;
  files.insert({{"x.tmp", "t"}, {"state.tmp/y", "t"}, {".lock", ""}, {"z.part", "p"}});
  upload_until(store, files, -1);
  EXPECT_EQ(visible(store), first);
}

TEST(Upload, AnObjectThatIsGoneIsPutAgain) {
  MemoryStore store;
  upload_until(store, first, -1);
  store.objects.erase("/run/m.json");
  upload_until(store, first, -1);
  EXPECT_EQ(visible(store), first);
}

TEST(Upload, AllIsSentButWhatADownloadOfOursHasBegun) {
  const TemporaryFolder folder;
  Files files = first;
  files.insert({{"x.tmp", "t"}, {".hidden/y", "h"}, {"alone.part", "p"}});
  auto all = files;
  all.insert({{"z.part", "p"}, {"z.part.of", "z"}, {".part.of", ""}});
  make_files(folder / "run", all);
  std::filesystem::create_directory_symlink(folder / "run/states", folder / "run/link");
  std::filesystem::create_symlink(folder / "none", folder / "run/broken");
  files["link/1"] = files["states/1"];
  MemoryStore store;
  const auto done = upload(store, folder / "run", place, Sending::all);
  EXPECT_EQ(visible(store), files);
  EXPECT_EQ(done.left_out, 4);  // three of downloads and the link to nothing
  std::filesystem::create_directory_symlink(folder / "run", folder / "run/states/up");
  EXPECT_THROW(upload(store, folder / "run", place, Sending::all), std::runtime_error);
}

TEST(Upload, CachesOfOursStayHere) {
  const TemporaryFolder folder;
  Files files{{"train-0", "zero"}, {"sub/train-1", "one"}, {".dimredx", "x"}};
  auto all = files;
  all.insert({{".dimred/index.bin", "i"}, {"sub/.dimred/inflated", "z"}});
  make_files(folder / "data", all);
  MemoryStore store;
  for (const auto sending : {Sending::all, Sending::run}) {
    const auto chosen = files_to_send(folder / "data", sending);
    EXPECT_EQ(std::ranges::count(chosen.names, ".dimred/index.bin"), 0);
    EXPECT_EQ(std::ranges::count(chosen.names, "sub/.dimred/inflated"), 0);
    EXPECT_EQ(chosen.left_out, 0);
  }
  upload(store, folder / "data", place, Sending::all);
  EXPECT_EQ(visible(store), files);
}

TEST(Upload, AFolderIsNotSentIntoItself) {
  const TemporaryFolder folder;
  make_files(folder / "data", first);
  std::filesystem::create_directory_symlink(folder / "data", folder / "link");
  const auto send = [&](const std::filesystem::path& from, const std::string& to) {
    return error_of([&] {
      upload(from, parse_url("file://" + (folder / to).string()), quick(), Sending::all);
    });
  };
  for (const auto* to : {"data", "data/sub", "data/a/b/..", "link/sub/new", "data/%73ub"})
    EXPECT_THAT(send(folder / "data", to), testing::HasSubstr("cannot copy a folder into itself"))
        << to;
  EXPECT_THAT(send(folder / "link", "data/sub"),
              testing::HasSubstr("cannot copy a folder into itself"));
  EXPECT_EQ(files_of(folder / "data"), first);
  EXPECT_EQ(send(folder / "data", "data2"), "");
  EXPECT_EQ(send(folder / "data", "..data"), "");
  EXPECT_EQ(send(folder / "data/a", "data/copy"), "");  // a file
}

TEST(Upload, AFolderHereIsWrittenThroughNoLinkThatItHolds) {
  const TemporaryFolder folder;
  make_files(folder / "run", {{"sub/a", "new"}});
  std::filesystem::create_directories(folder / "outside");
  std::filesystem::create_directories(folder / "to");
  std::filesystem::create_directory_symlink("../outside", folder / "to/sub");
  EXPECT_THAT(
      error_of([&] {
        upload(
            folder / "run", parse_url("file://" + (folder / "to").string()), quick(), Sending::all);
      }),
      testing::HasSubstr("to/sub' is a link"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "outside"));
}

TEST(Upload, WhatAKilledPutLeftGoes) {
  const TemporaryFolder folder;
  const auto there = folder / "there";
  make_files(folder / "run", first);
  const auto url = parse_url("file://" + there.string());
  upload(folder / "run", url, quick(), Sending::run);
  for (const auto* name : {"m.json.tmp", "_COMPLETE.tmp", "others.tmp"})
    std::ofstream(there / name) << "half";
  std::ofstream(folder / "run/new") << "new";
  upload(folder / "run", url, quick(), Sending::run);
  auto left = files_of(there);
  left.erase(complete_name);
  auto wanted = first;
  wanted.insert({{"new", "new"}, {"others.tmp", "half"}});
  EXPECT_EQ(left, wanted);
}

TEST(Upload, AFolderThatSomebodyCommitsMeanwhileIsLookedAtAgain) {
  MemoryStore store;
  upload_until(store, first, -1);
  bool meanwhile = true;
  store.before_read = [&] {  // between the list and the listing
    if (std::exchange(meanwhile, false)) upload_until(store, second, -1);
  };
  EXPECT_EQ(visible(store), second);
}

TEST(Upload, IsRefusedWhereSomethingElseLies) {
  MemoryStore store;
  store.objects["/run/photo.jpg"] = "theirs";
  EXPECT_THROW(upload_until(store, first, -1), std::invalid_argument);
  EXPECT_EQ(store.objects.size(), 1U);
}

TEST(Upload, OthersFilesBesideAnUploadOfOursStay) {
  MemoryStore store;
  upload_until(store, first, -1);
  store.objects["/run/notes.txt"] = "theirs";
  upload_until(store, second, -1);
  EXPECT_EQ(store.objects.at("/run/notes.txt"), "theirs");
}

TEST(Upload, OthersFilesAreNotOverwritten) {
  MemoryStore store;
  upload_until(store, first, -1);
  store.objects["/run/states/2"] = "theirs";
  const auto objects = store.objects;
  EXPECT_THROW(upload_until(store, second, -1), std::invalid_argument);
  EXPECT_EQ(store.objects, objects);
}

TEST(Upload, OnlyWhatAListingHasMayLieInItsFolder) {
  const TemporaryFolder folder;
  make_files(folder / "own", {{"a", "one"}, {"sub/b", "two"}, {"c", "else"}});
  const auto there = "file://" + (folder / "there").string();
  upload(folder / "own", parse_url(there), quick(), Sending::all);
  const auto pass = [&](const std::string& file, const std::string& url) {
    return error_of(
        [&] { require_outside_listings(folder / "own" / file, parse_url(url), quick()); });
  };
  const auto refused =
      testing::HasSubstr(formatted("in the folder {} would be missing from the list", there));
  EXPECT_EQ(pass("a", there + "/a"), "");
  EXPECT_EQ(pass("sub/b", there + "/sub/b"), "");
  EXPECT_THAT(pass("c", there + "/a"), refused);
  EXPECT_THAT(pass("a", there + "/new"), refused);
  EXPECT_THAT(pass("sub", there + "/sub"), refused);
  // A bucket is below no folder, so nothing is asked for.
  EXPECT_EQ(pass("a", "s3://bucket"), "");
  EXPECT_EQ(pass("a", "s3://bucket/"), "");
}

TEST(Upload, NamesThatNoReaderTakesAreRefusedBeforeAnythingIsSent) {
  MemoryStore store;
  for (const std::string name : {"a\nb", "sub/a\x7f", "a\xff"}) {
    EXPECT_THAT(error_of([&] {
                  upload_until(store, {{"ok", "ok"}, {name, "x"}}, -1);
                }),
                testing::HasSubstr("UTF-8 without control characters, received "));
    EXPECT_TRUE(store.objects.empty());
  }
  EXPECT_TRUE(upload_until(store, {{"a \xc3\xbc*", "x"}}, -1));
  const TemporaryFolder folder;
  make_files(folder / "run", {{"ok", "ok"}, {"a[1]", "x"}});
  const auto hadoop = make_hadoop_store(quick());
  EXPECT_THROW(upload(*hadoop, folder / "run", parse_url("hdfs://h/run"), Sending::all),
               std::invalid_argument);
}

TEST(Upload, AFileIsNotPutInPlaceOfOneThatIsNamedAsItsTemporaryFile) {
  const TemporaryFolder folder;
  const auto url = parse_url("file://" + (folder / "there").string());
  make_files(folder / "run", {{"a", "a"}, {"a.tmp", "kept"}});
  EXPECT_THROW(upload(folder / "run", url, quick(), Sending::all), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder / "there"));
  std::filesystem::remove(folder / "run/a");
  upload(folder / "run", url, quick(), Sending::all);
  make_files(folder / "run", {{"a", "a"}});
  EXPECT_THROW(upload(folder / "run", url, quick(), Sending::all), std::invalid_argument);
  EXPECT_EQ(text_of_file(folder / "there/a.tmp"), "kept");
}

TEST(Upload, AnothersFileNamedAsTheTemporaryOneOfASingleFileStays) {
  const TemporaryFolder folder;
  make_files(folder.path(), {{"new", "new bytes"}, {"there.tmp", "precious"}});
  const auto put = [&] {
    const auto url = parse_url("file://" + (folder / "there").string());
    upload(folder / "new", url, quick(), Sending::all);
  };
  EXPECT_THAT(error_of(put),
              testing::HasSubstr("another file has this temporary name; remove that"));
  EXPECT_EQ(text_of_file(folder / "there.tmp"), "precious");
  put_file(folder / "there.tmp", "new");  // as a put that is killed leaves it
  put();
  EXPECT_EQ(text_of_file(folder / "there"), "new bytes");
  EXPECT_FALSE(std::filesystem::exists(folder / "there.tmp"));
}

TEST(Upload, IsTriedAgainWhenTheStoreIsBusyAndNotWhenItRefuses) {
  const TemporaryFolder folder;
  make_files(folder / "run", first);
  MemoryStore store;
  store.failures = 2;
  EXPECT_EQ(upload(store, folder / "run", place, Sending::run).files, 4);
  store.objects.clear();
  store.failures = 3;
  EXPECT_THROW(upload(store, folder / "run", place, Sending::run), StoreError);
  EXPECT_EQ(store.failures, 0);
  store.failures = 3;
  store.passing = false;
  EXPECT_THROW(upload(store, folder / "run", place, Sending::run), StoreError);
  EXPECT_EQ(store.failures, 2);
}

}  // namespace
}  // namespace dimred::stores
