#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "stores/cache.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Names that begin with train, the last first.
std::vector<std::string> pick_trains(std::vector<std::string> names, bool) {
  std::erase_if(names, [](const auto& name) { return !name.starts_with("train"); });
  std::sort(names.rbegin(), names.rend());
  return names;
}

struct OpenStream : testing::Test {
  TemporaryFolder folder;
  StoreOptions options = quick(1);

  void SetUp() override {
    options.cache = folder / "cache";
    make_files(folder / "data",
               {{"train-0", "zero"},
                {"train-1", "one"},
                {"test-0", "test"},
                {"labels.txt", "a\n"},
                {"sub/train-2", "two"}});
  }
  StreamedFolder open(const std::string& below) {
    return open_stream(parse_url("file://" + (folder / below).string()),
                       pick_trains,
                       {.beside = {"labels.txt", "other"}},
                       options);
  }
  static std::vector<std::string> names_of(const StreamedFolder& place) {
    std::vector<std::string> names;
    for (const auto& shard : place.shards) names.push_back(shard.item.name);
    return names;
  }
};

TEST_F(OpenStream, OfAFolderBringsAllButWhatIsStreamed) {
  const auto place = open("data");
  EXPECT_THAT(names_of(place), ElementsAre("train-1", "train-0"));
  EXPECT_EQ(place.shards.front().item.size, 3);
  EXPECT_EQ(files_of(place.rest.path),
            (Files{{"test-0", "test"}, {"labels.txt", "a\n"}, {"sub/train-2", "two"}}));
}

TEST_F(OpenStream, OfAPatternBringsWhatIsNamedBesideIt) {
  const auto place = open("data/train-*");
  EXPECT_THAT(names_of(place), ElementsAre("train-1", "train-0"));
  EXPECT_EQ(place.rest.path.filename(), "train-*");
  EXPECT_EQ(files_of(place.rest.path.parent_path()), (Files{{"labels.txt", "a\n"}}));
}

TEST_F(OpenStream, NeedsNothingBesideIt) {
  make_files(folder / "data", {{"train-0", "zero"}});
  EXPECT_EQ(files_of(open("data").rest.path), Files{});
  EXPECT_EQ(files_of(open("data/train-*").rest.path.parent_path()), Files{});
}

/// A process keeps what it has got, so the first start is another one.
void in_another_process(const std::function<void()>& work) {
  const auto process = fork();
  if (process == 0) {
    work();
    _exit(0);
  }
  int status = 1;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

TEST_F(OpenStream, WhatIsGoneThereGoesHere) {
  in_another_process([&] {
    open("data");
    open("data/train-*");
  });
  make_files(folder / "data", {{"train-0", "zero"}});
  const auto whole = open("data").rest.path;
  EXPECT_TRUE(std::filesystem::is_directory(whole));
  EXPECT_EQ(files_of(whole), Files{});
  EXPECT_EQ(files_of(open("data/train-*").rest.path.parent_path()), Files{});
}

TEST_F(OpenStream, CachesThatLieThereStayThere) {
  make_files(folder / "data", {{"train-0", "zero"}, {".dimred/a", "a"}, {"sub/.dimred/b", "b"}});
  const auto place = open("data");
  EXPECT_THAT(names_of(place), ElementsAre("train-0"));
  EXPECT_EQ(files_of(place.rest.path), Files{});
}

TEST_F(OpenStream, RefusesASingleFileAndWhatHoldsNothingToStream) {
  EXPECT_THAT(error_of([&] { open("data/train-0"); }), HasSubstr("needs a folder"));
  EXPECT_THAT(error_of([&] { open("data/test-*"); }),
              HasSubstr("found no file to stream at file://"));
  EXPECT_THAT(error_of([&] { open("none"); }), HasSubstr("found no file to stream at file://"));
}

}  // namespace
}  // namespace dimred::stores
