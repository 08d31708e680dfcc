#include "stores/local_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "stores/upload.h"
#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Walk, LinksAreFollowedAndThoseToNothingAreOthers) {
  const TemporaryFolder folder;
  make_files(folder / "run", {{"a/b", "b"}, {"c", "c"}});
  fs::create_directory_symlink("a", folder / "run/link");
  fs::create_symlink("none", folder / "run/nothing");
  fs::create_symlink("circle", folder / "run/circle");
  fs::create_symlink("c/below", folder / "run/below_a_file");
  const auto walked = walk(folder / "run");
  EXPECT_THAT(walked.files, ElementsAre("a/b", "c", "link/b"));
  EXPECT_THAT(walked.others, ElementsAre("below_a_file", "circle", "nothing"));
}

TEST(TextOrNone, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  make_files(folder.path(), {{"a", "text"}});
  EXPECT_EQ(text_or_none(folder / "a"), "text");
  EXPECT_EQ(text_or_none(folder / "none"), "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { text_or_none(folder / "pipe"); }),
              HasSubstr("needs to be a regular file"));
}

/// A name that stat() refuses for another reason than that nothing is there; root's, too.
void make_unreadable(const fs::path& link) { fs::create_symlink(std::string(300, 'x'), link); }

TEST(Walk, AFileThatCannotBeLookedAtIsNotLeftOut) {
  const TemporaryFolder folder;
  make_files(folder / "run", {{"a", "a"}, {"b", "b"}});
  MemoryStore store;
  const auto place = parse_url("s3://bucket/run");
  upload(store, folder / "run", place, Sending::run);
  const auto objects = store.objects;
  fs::remove(folder / "run/a");
  make_unreadable(folder / "run/a");
  EXPECT_THROW(walk(folder / "run"), fs::filesystem_error);
  EXPECT_THROW(upload(store, folder / "run", place, Sending::run), fs::filesystem_error);
  EXPECT_EQ(store.objects, objects);
}

TEST(Walk, AFolderIsNotReadWithoutWhatItsLinksShouldLeadTo) {
  const TemporaryFolder folder;
  make_files(folder / "data", {{"a", "a"}});
  const auto url = parse_url("file://" + (folder / "data").string());
  const auto store = make_file_store(quick());
  EXPECT_EQ(find(*store, url).size(), 1U);
  const auto found = find(*store, url).front();
  fs::remove(folder / "data/a");
  EXPECT_THROW(store->read(found.url, found.item, 0, [](auto) {}), Changed);
  make_files(folder / "data", {{"a", "a"}});
  fs::create_symlink(folder / "none", folder / "data/shard");
  EXPECT_THAT(error_of([&] { find(*store, url); }),
              HasSubstr("shard is a link that leads to no file"));
  fs::remove(folder / "data/shard");
  make_unreadable(folder / "data/shard");
  EXPECT_THAT(error_of([&] { find(*store, url); }), HasSubstr("/data/shard: "));
}

}  // namespace
}  // namespace dimred::stores
