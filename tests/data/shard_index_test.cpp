#include "data/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/shard_names.h"
#include "tests/data/copied_source.h"

namespace dimred::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TrainingShards, AreTheNamesThatALocalFolderWouldGive) {
  EXPECT_THAT(training_shards({"train-10",
                               "train-9",
                               "validation-0",
                               "labels.txt",
                               "a_Train.gz",
                               ".train-1",
                               "train-1.tmp",
                               "train.index",
                               "sub/train-3"},
                              /*pattern=*/false),
              ElementsAre("a_Train.gz", "train-9", "train-10"));
  EXPECT_THAT(training_shards({"test-0", "train/b10", "train/b9", "train/labels.txt", "train/x/y"},
                              /*pattern=*/false),
              ElementsAre("train/b9", "train/b10"));
  EXPECT_THAT(training_shards({"test-0"}, /*pattern=*/false), IsEmpty());
  EXPECT_THAT(
      training_shards({"1.tfrecord", "0.tfrecord", "eval.tfrecord", "README", "a/2.tfrecord"},
                      /*pattern=*/false),
      ElementsAre("0.tfrecord", "1.tfrecord"));
  EXPECT_THAT(training_shards({"b", "a", "shards.index"}, /*pattern=*/true), ElementsAre("a", "b"));
}

TEST(ShardsIndex, ReadsBackAndRefusesDamage) {
  const StreamedRecords records({2, 3});
  const auto indices = index_shards(records.folder / "there", {});
  ASSERT_EQ(indices.size(), 2U);
  EXPECT_EQ(indices.at("train-1").index.entries.size(), 3U);
  EXPECT_EQ(indices.at("train-1").bytes,
            static_cast<std::int64_t>(std::filesystem::file_size(records.files[1])));
  const auto bytes = to_bytes(indices);
  EXPECT_EQ(to_bytes(indices_from_bytes(as_numbers(bytes))), bytes);
  for (const std::size_t at : {std::size_t{3}, std::size_t{9}, bytes.size() / 2}) {
    auto damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THAT(error_of([&] { indices_from_bytes(as_numbers(damaged)); }), HasSubstr("[index]"));
  }
  EXPECT_THAT(error_of([&] { indices_from_bytes(as_numbers(bytes.substr(0, bytes.size() - 1))); }),
              HasSubstr("[index]"));
}

TEST(ShardsIndex, IsOfGoodRecordsOrNamesTheFirstThatIsNot) {
  const StreamedRecords records({2, 3, 1});
  const auto folder = records.folder / "there";
  const auto whole = text_of_file(records.files[1]);
  put_file(records.files[1], whole.substr(0, whole.size() - 5));
  put_file(records.files[2], "no record at all, only text");
  for (const bool streams : {false, true}) {
    const auto path = streams ? records.folder / "content" : folder;
    const auto place = streams ? std::string("there://") : folder.string() + "/";
    if (streams) stream_from(path, records.source(records.bytes()));
    const auto error = error_of([&] { index_shards(path, records.folder / "cache"); });
    EXPECT_THAT(error, HasSubstr("[tfrecord] " + place + "train-1, offset "));
    EXPECT_THAT(error, HasSubstr("; and 1 more problems (--on_bad_sample skip"));
    const auto indices = index_shards(path, records.folder / "cache", /*skip_bad=*/true);
    EXPECT_EQ(indices.at("train-0").index.entries.size(), 2U);
    EXPECT_EQ(indices.at("train-1").index.entries.size(), 2U);
    EXPECT_EQ(indices.at("train-2").index.problem_count, 1);
  }
  forget_sources();
  std::filesystem::remove(records.files[0]);
  std::filesystem::remove(records.files[1]);
  EXPECT_THAT(error_of([&] { index_shards(folder, records.folder / "cache", /*skip_bad=*/true); }),
              HasSubstr("train-2: needs at least one good record, received 1 bad one"));
}

TEST(StreamedIndex, IsMadeInOnePassAndKept) {
  const StreamedRecords records({2, 3, 4});
  const auto source = records.source(records.bytes() / 2);
  EXPECT_EQ(records.open_streamed(source)->size(), 9);
  EXPECT_EQ(source->fetched.size(), 3U);
  EXPECT_LE(source->most, records.bytes() / 2);
  const auto again = records.source(records.bytes() / 2);
  EXPECT_EQ(records.open_streamed(again)->size(), 9);
  EXPECT_THAT(again->fetched, IsEmpty());
}

TEST(StreamedIndex, OfAFileThatIsAnotherByNowIsMadeAnew) {
  const StreamedRecords records({2, 3});
  records.open_streamed(records.source(records.bytes()));
  put_file(records.files[1], example_record(9, 0));
  std::filesystem::remove(records.folder / "here/train-1");
  const auto source = records.source(records.bytes());
  EXPECT_EQ(records.open_streamed(source)->size(), 3);
  EXPECT_THAT(source->fetched, ElementsAre(1));
}

TEST(StreamedIndex, ThatLiesBesideTheFilesSparesThePass) {
  const StreamedRecords records({2, 3});
  std::filesystem::create_directories(records.folder / "content");
  put_file(records.folder / "content/shards.index",
           to_bytes(index_shards(records.folder / "there", records.folder / "cache")));
  const auto source = records.source(records.bytes());
  const auto dataset = records.open_streamed(source);
  EXPECT_EQ(dataset->size(), 5);
  EXPECT_EQ(dataset->digest(), records.open_here()->digest());
  EXPECT_THAT(source->fetched, IsEmpty());
  EXPECT_EQ(bytes_at(*dataset, 4), image_file(4));
  // A file that was changed and not indexed again, of the same length.
  auto text = text_of_file(records.files[0]);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  put_file(records.files[0], text);
  EXPECT_THAT(error_of([&] { bytes_at(*dataset, 0); }),
              HasSubstr("there://train-0 changed after dimred wrote the index of this file"));
  put_file(records.folder / "content/shards.index", "something else");
  std::filesystem::remove_all(records.folder / "here/index");
  EXPECT_THAT(error_of([&] { records.open_streamed(records.source(records.bytes())); }),
              AllOf(HasSubstr("[index] there://shards.index: "),
                    HasSubstr("; write the index again with `dimred data index --overwrite")));
  stream_from(records.folder / "content", records.source(records.bytes()));
  const auto second = index_shards(records.folder / "content", {}, /*skip_bad=*/true);
  EXPECT_EQ(second.at("train-1").index.entries.size(), 3U);
  forget_sources();
}

TEST(StreamedIndex, NamesWhatIsWrongByItsPlace) {
  const StreamedRecords records({2, 1});
  put_file(records.files[1], text_of_file(records.files[1]) + "x");
  EXPECT_THAT(error_of([&] { records.open_streamed(records.source(records.bytes())); }),
              HasSubstr("there://train-1, offset "));
  const auto dataset =
      records.open_streamed(records.source(records.bytes()), {.dataset = {.skip_bad = true}});
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_THAT(dataset->description(), HasSubstr("1 bad record skipped"));
}

}  // namespace
}  // namespace dimred::data
