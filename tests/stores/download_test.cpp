#include "stores/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "stores/attempts.h"
#include "stores/listing.h"
#include "stores/upload.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

using testing::HasSubstr;

const Url remote_file = parse_url("s3://bucket/data/a.bin");
const Url download_url = parse_url("s3://bucket/data");

TEST(Download, ContinuesWhereItWasCut) {
  const TemporaryFolder folder;
  MemoryStore store(2);
  store.objects[remote_file.path] = std::string(1000, 'x') + "end";
  store.cut_after = 100;  // more pieces than attempts: progress counts
  EXPECT_EQ(download(store, remote_file, folder / "a").bytes, 1003);
  EXPECT_EQ(store.read_bytes, 1003);
  EXPECT_EQ(text_of_file(folder / "a"), store.objects[remote_file.path]);
  EXPECT_EQ(folder.count(), 1U);
}

TEST(Download, WritesThroughNoLinkThatTheFolderHolds) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  make_files(folder / "outside", {{"a.bin", "precious"}});
  const std::vector<std::pair<std::string, std::string>> links{
      {"got/sub", "../outside"},
      {"got/sub/a.bin.part", "../../outside/a.bin"},
      {"got/sub/a.bin.part.of.tmp", "../../outside/a.bin"},
      {"got/.part.of.tmp", "../outside/a.bin"}};
  for (const auto& [link, target] : links) {
    fs::remove_all(folder / "got");
    fs::create_directories((folder / link).parent_path());
    fs::create_symlink(target, folder / link);
    MemoryStore store(1);
    store.objects["/data/sub/a.bin"] = "new";
    EXPECT_THAT(error_of([&] { download(store, download_url, folder / "got"); }),
                HasSubstr(link + "' is a link"));
    EXPECT_EQ(files_of(folder / "outside"), (Files{{"a.bin", "precious"}})) << link;
  }
}

TEST(Download, ALaterCallContinuesTheSameFile) {
  const TemporaryFolder folder;
  MemoryStore store(1);
  store.objects[remote_file.path] = std::string(1000, 'x');
  store.cut_after = 600;
  EXPECT_THROW(download(store, remote_file, folder / "a"), StoreError);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  store.cut_after = -1;
  store.read_bytes = 0;
  download(store, remote_file, folder / "a");
  EXPECT_EQ(store.read_bytes, 400);
  EXPECT_EQ(text_of_file(folder / "a"), store.objects[remote_file.path]);
}

TEST(Download, AnothersFileWithATemporaryNameStays) {
  for (const std::string name : {"a.bin.part", "a.bin.part.of"}) {
    const TemporaryFolder folder;
    make_files(folder / "got", {{name, "precious"}});
    MemoryStore store;
    store.objects[remote_file.path] = "new";
    const auto refused = HasSubstr("another file has this temporary name; move that file");
    EXPECT_THAT(error_of([&] { download(store, remote_file, folder / "got/a.bin"); }), refused);
    EXPECT_THAT(error_of([&] { download(store, download_url, folder / "got"); }), refused);
    EXPECT_EQ(files_of(folder / "got"), (Files{{name, "precious"}}));
  }
}

TEST(Download, DamageIsFoundByTheListingsDigest) {
  const TemporaryFolder folder;
  MemoryStore store;
  make_files(folder / "run", {{"a.bin", "good bytes"}, {"b", "b"}});
  upload(store, folder / "run", download_url, Sending::run);
  store.objects[remote_file.path] = "evil bytes";
  const auto error = error_of([&] { download(store, download_url, folder / "got"); });
  EXPECT_THAT(error,
              HasSubstr("s3://bucket/data/a.bin does not match its digest (after 3 attempts)"));
  EXPECT_FALSE(std::filesystem::exists(folder / "got/a.bin"));
  store.objects[remote_file.path] = "short";
  EXPECT_THAT(error_of([&] { download(store, download_url, folder / "got"); }),
              HasSubstr("is damaged: a.bin has 5 bytes instead of 10"));
  store.objects.erase(remote_file.path);
  EXPECT_THAT(error_of([&] { download(store, download_url, folder / "got"); }),
              HasSubstr("is damaged: a.bin is missing"));
}

TEST(Download, DamageIsFoundInTheEndAlthoughEachReadIsCut) {
  const TemporaryFolder folder;
  MemoryStore store;
  make_files(folder / "run", {{"a.bin", std::string(1000, 'x')}});
  upload(store, folder / "run", download_url, Sending::run);
  store.objects[remote_file.path] = std::string(1000, 'y');
  const auto listing_size = std::ssize(store.objects.at("/data/_COMPLETE"));
  store.cut_after = std::max<std::int64_t>(400, listing_size);
  int reads = 0;
  store.before_read = [&] {
    if (++reads > 50) throw Killed();  // it would go on for ever
  };
  EXPECT_THROW(download(store, download_url, folder / "got"), StoreError);
  EXPECT_FALSE(std::filesystem::exists(folder / "got/a.bin"));
}

TEST(Download, AFolderWhoseUploadHasNotEndedIsRefused) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.objects = {{"/data/a.bin", "a"}, {"/data/_INCOMPLETE", listing_text({})}};
  EXPECT_THROW(download(store, download_url, folder / "got"), Unfinished);
  EXPECT_THAT(error_of([&] { download(store, parse_url("s3://bucket/none"), folder / "x"); }),
              HasSubstr("found no file at s3://bucket/none"));
}

TEST(Download, AFileThatIsOverwrittenMeanwhileIsNoMixture) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.objects[remote_file.path] = std::string(1000, 'x');
  store.after_read = [&] { store.objects[remote_file.path] = std::string(1000, 'y'); };
  EXPECT_THAT(error_of([&] { download(store, remote_file, folder / "a"); }),
              HasSubstr("s3://bucket/data/a.bin has changed while it was read"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  store.after_read = {};
  download(store, remote_file, folder / "a");
  EXPECT_EQ(text_of_file(folder / "a"), std::string(1000, 'y'));
}

TEST(Download, OfAFolderThatWasCutOnlyTheRestIsRead) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.objects = {{"/data/a", "aaaa"}, {"/data/b", "bbbb"}, {"/data/c", "cccc"}};
  int reads = 0;
  store.before_read = [&] {
    if (++reads == 3) throw Killed();  // no handler of ours sees it
  };
  EXPECT_THROW(download(store, download_url, folder / "got"), Killed);
  store.before_read = {};
  store.read_bytes = 0;
  const auto done = download(store, download_url, folder / "got");
  EXPECT_EQ(done.present, 2);
  EXPECT_EQ(store.read_bytes, 4);
  EXPECT_EQ(files_of(folder / "got"), (Files{{"a", "aaaa"}, {"b", "bbbb"}, {"c", "cccc"}}));
}

TEST(Download, WhatACutOneBroughtFromElsewhereIsReadAnew) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.equal_etags = true;  // written in the same second
  store.objects = {{"/v1/a", "one"}, {"/v1/b", "one"}, {"/v2/a", "two"}, {"/v2/b", "two"}};
  int reads = 0;
  store.before_read = [&] {
    if (++reads == 2) throw Killed();
  };
  EXPECT_THROW(download(store, parse_url("s3://u:secret@bucket/v1"), folder / "got"), Killed);
  EXPECT_THAT(text_of_file(folder / "got/.part.of"), testing::Not(HasSubstr("secret")));
  store.before_read = {};
  EXPECT_EQ(download(store, parse_url("s3://bucket/v2"), folder / "got", /*overwrite=*/true).files,
            2);
  EXPECT_EQ(files_of(folder / "got"), (Files{{"a", "two"}, {"b", "two"}}));
}

TEST(Download, AFileOfTheListedDigestIsNotReadAgain) {
  const TemporaryFolder folder;
  MemoryStore store;
  make_files(folder / "run", {{"a", "aaaa"}, {"b", "bbbb"}});
  upload(store, folder / "run", download_url, Sending::run);
  download(store, download_url, folder / "got");
  std::ofstream(folder / "got/b") << "spoilt";
  store.read_bytes = -std::ssize(store.objects.at("/data/_COMPLETE"));
  EXPECT_EQ(download(store, download_url, folder / "got", /*overwrite=*/true).present, 1);
  EXPECT_EQ(store.read_bytes, 4);
  EXPECT_EQ(files_of(folder / "got"), files_of(folder / "run"));
}

TEST(Download, APatternTakesTheFilesOfOneFolder) {
  const TemporaryFolder folder;
  MemoryStore store;
  store.objects = {{"/data/t-1.rec", "1"},
                   {"/data/t-2.rec", "2"},
                   {"/data/v-1.rec", "3"},
                   {"/data/t/t-3.rec", "4"}};
  download(store, parse_url("s3://bucket/data/t-*.rec"), folder / "got");
  EXPECT_EQ(files_of(folder / "got"), (Files{{"t-1.rec", "1"}, {"t-2.rec", "2"}}));
}

TEST(Listing, NamesOutsideOfTheFolderAndNonsenseAreRefused) {
  const auto with = [](const std::string& name, const std::string& stored) {
    return listing_text({{name, {1, std::string(32, '0'), stored}}});
  };
  const std::string wrong[] = {
      "",
      "{}",
      "[1]",
      "{\"format\":\"dimred listing 1\"}",
      with("../x", "y"),
      with("x", "/etc/passwd"),
      with("a/../../x", "y"),
      with("x\n", "y"),
      R"({"format":"dimred listing 1","files":{"x":{"size":-1,"xxh3_128":"00000000000000000000000000000000"}}})",
      R"({"format":"dimred listing 2","files":{}})"};
  for (const auto& text : wrong)
    EXPECT_THAT(error_of([&] { parse_listing(text, "s3://b/_COMPLETE"); }),
                HasSubstr("s3://b/_COMPLETE is not a listing of dimred"))
        << text;
}

TEST(Attempts, WaitsDoubleUpToTheLongestTimesJitter) {
  StoreOptions options;
  options.first_wait = 2;
  options.longest_wait = 9;
  EXPECT_EQ(wait_before_next(options, 1, 1), 2);
  EXPECT_EQ(wait_before_next(options, 3, 1), 8);
  EXPECT_EQ(wait_before_next(options, 4, 1), 9);
  EXPECT_EQ(wait_before_next(options, 1000, 0.5), 4.5);
}

}  // namespace
}  // namespace dimred::stores
