#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <stdexcept>

#include "data/record_readers.h"
#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

std::string bytes_at(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  const auto sample = dataset.read(index, scratch);
  EXPECT_EQ(sample.encoding, Encoding::png);
  return {sample.bytes.begin(), sample.bytes.end()};
}

std::int64_t label_at(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  return dataset.read(index, scratch).label;
}

/// Two files of three samples each: numbers 0 to 5 with labels 0, 1, 2, 0, 1, 2.
struct RecordFiles : testing::TestWithParam<std::string> {
  TemporaryFolder folder;
  std::vector<fs::path> files;

  void SetUp() override {
    for (int file = 0; file < 2; ++file)
      files.push_back(folder.write("part-" + std::to_string(file),
                                   record(3 * file) + record(3 * file + 1) + record(3 * file + 2)));
  }
  bool is_tf() const { return GetParam() == "tfrecord"; }
  std::string record(std::int64_t number) const { return record(number, number % 3); }
  std::string record(std::int64_t number, std::int64_t label) const {
    return is_tf() ? example_record(number, label)
                   : base64_line(number, label, GetParam() == "label first");
  }
  std::unique_ptr<Dataset> open(RecordOptions options = {}) const {
    if (options.files.empty()) options.files = files;
    return is_tf() ? open_tfrecord(options) : open_base64(options);
  }
  std::string failure(const RecordOptions& options = {}) const {
    return error_of([&] { open(options); });
  }
};

INSTANTIATE_TEST_SUITE_P(Forms,
                         RecordFiles,
                         testing::Values("tfrecord", "base64", "label first"),
                         [](const auto& form) {
                           return form.param == "label first" ? "LabelFirst" : form.param;
                         });

TEST_P(RecordFiles, GiveSamplesInTheOrderOfTheFiles) {
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 6);
  EXPECT_THAT(dataset->class_names(), ElementsAre("0", "1", "2"));
  EXPECT_THAT(dataset->shard_sizes(), ElementsAre(3, 3));
  EXPECT_EQ(dataset->shape(), std::nullopt);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(bytes_at(*dataset, i), image_file(i));
    EXPECT_EQ(label_at(*dataset, i), i % 3);
  }
  EXPECT_THROW(bytes_at(*dataset, 6), std::invalid_argument);
  EXPECT_THROW(bytes_at(*dataset, -1), std::invalid_argument);
}

TEST_P(RecordFiles, DescribeThemselves) {
  const auto dataset = open();
  EXPECT_THAT(
      dataset->description(),
      AllOf(HasSubstr("part-0 and 1 more files"), HasSubstr("6 images of 3 classes, xxh3 ")));
  const auto order = GetParam() == "label first" ? "label<TAB>base64" : "base64<TAB>label";
  EXPECT_EQ(dataset->description().find(order) != std::string::npos, !is_tf());
  EXPECT_THAT(dataset->origin(3), HasSubstr("part-1, offset "));
}

TEST_P(RecordFiles, TakeNamesFromLabelsTxt) {
  folder.write("labels.txt", "0:daisy\n1:rose, red\r\n2:tulip\n");
  EXPECT_THAT(open()->class_names(), ElementsAre("daisy", "rose, red", "tulip"));
  folder.write("labels.txt", "daisy\nrose\ntulip\nweed");
  EXPECT_THAT(open()->class_names(), ElementsAre("daisy", "rose", "tulip", "weed"));
  EXPECT_THAT(
      failure({.classes = 3}),
      AllOf(HasSubstr("labels.txt names 4 classes"), HasSubstr("received num_classes = 3")));
  folder.write("labels.txt", "0:daisy\n2:rose\n");
  EXPECT_THAT(failure(), HasSubstr("needs 1:name on line 2, received 2:rose"));
}

TEST_P(RecordFiles, SubtractTheLabelsOffset) {
  files = {folder.write("one", record(0, 1) + record(1, 2))};
  folder.write("labels.txt", "0:background\n1:cat\n2:dog\n");
  const auto dataset = open({.labels_offset = 1});
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(label_at(*dataset, 0), 0);
  EXPECT_EQ(label_at(*dataset, 1), 1);
  EXPECT_THAT(dataset->description(), HasSubstr("stored labels less 1"));
}

TEST_P(RecordFiles, NameALabelOutOfRange) {
  EXPECT_THAT(
      failure({.classes = 2}),
      AllOf(HasSubstr("part-0, offset "), HasSubstr("needs a label in [0, 2), received 2")));
  files = {folder.write("one", record(0, 1) + record(1, -1))};
  EXPECT_THAT(failure(), HasSubstr("needs a label in [0, 2), received -1"));
  files = {folder.write("one", record(0, 1) + record(1, std::int64_t{1} << 62))};
  EXPECT_THAT(failure(), HasSubstr("received 4611686018427387904"));
}

TEST_P(RecordFiles, LeaveBadRecordsOutAndCountThem) {
  files = {folder.write("one", record(0, 1) + record(1, 5) + record(2, 0))};
  const auto dataset = open({.classes = 2, .skip_bad = true});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(2));
  EXPECT_THAT(dataset->description(), HasSubstr("1 bad records skipped"));
  files = {folder.write("one", record(0, 9))};
  EXPECT_THAT(failure({.classes = 2, .skip_bad = true}),
              HasSubstr("needs at least one good record"));
}

TEST_P(RecordFiles, NameAnEmptyFile) {
  files.push_back(folder.write("empty", ""));
  EXPECT_THAT(failure(),
              AllOf(HasSubstr("empty, offset 0: "), HasSubstr("received an empty file")));
  EXPECT_THAT(failure({.files = {folder.path() / "none"}}), HasSubstr("none' does not exist"));
  EXPECT_THAT(failure({.files = {folder.path()}}), HasSubstr("needs to be a regular file"));
}

TEST_P(RecordFiles, NameACutFile) {
  const auto whole = record(0) + record(1);
  // Of Base64 not by a multiple of 4: what is left of it is then no Base64.
  files = {folder.write("cut", whole.substr(0, whole.size() - 10))};
  EXPECT_THAT(failure(), HasSubstr("cut, offset "));
  EXPECT_EQ(open({.skip_bad = true})->size(), 1);
}

TEST_P(RecordFiles, KeepTheIndexInACache) {
  open();
  const auto cache = folder.path() / ".dimred";
  ASSERT_TRUE(fs::is_directory(cache));
  const auto index_time = [&] {
    for (const auto& item : fs::directory_iterator(cache))
      if (item.path().extension() == ".bin") return fs::last_write_time(item);
    return fs::file_time_type();
  };
  const auto first = index_time();
  EXPECT_NE(first, fs::file_time_type());
  EXPECT_EQ(open()->size(), 6);
  EXPECT_EQ(index_time(), first);
}

TEST_P(RecordFiles, NoticeAStaleIndex) {
  open();
  folder.write("part-1", record(7) + record(8));
  const auto dataset = open();
  ASSERT_EQ(dataset->size(), 5);
  EXPECT_EQ(bytes_at(*dataset, 4), image_file(8));
}

/// Same size and time of change: the sampled content tells.
TEST_P(RecordFiles, NoticeOtherContentOfTheSameSizeAndTime) {
  const auto time = fs::last_write_time(files[1]);
  open();
  folder.write("part-1", record(5) + record(4) + record(3));
  fs::last_write_time(files[1], time);
  const auto dataset = open();
  EXPECT_EQ(bytes_at(*dataset, 3), image_file(5));
}

TEST_P(RecordFiles, MakeADamagedIndexAgain) {
  open();
  for (const auto& item : fs::directory_iterator(folder.path() / ".dimred")) {
    if (item.path().extension() != ".bin") continue;
    auto content = text_of_file(item.path());
    content[content.size() / 2] ^= 1;
    std::ofstream(item.path(), std::ios::binary) << content;
  }
  EXPECT_EQ(bytes_at(*open(), 5), image_file(5));
}

TEST_P(RecordFiles, PutTheCacheWhereTheyAreTold) {
  open({.cache = folder.path() / "elsewhere"});
  EXPECT_FALSE(fs::exists(folder.path() / ".dimred"));
  EXPECT_FALSE(fs::is_empty(folder.path() / "elsewhere"));
  EXPECT_THAT(failure({.cache = files[0] / "below a file"}), HasSubstr("needs a writable folder"));
}

TEST(TfRecordFiles, NameAWrongChecksum) {
  const TemporaryFolder folder;
  const auto first = example_record(0, 0);
  auto text = first + example_record(1, 1) + example_record(2, 2);
  text[first.size() + 40] ^= 1;  // in the second record's payload
  const RecordOptions options{.files = {folder.write("shard", text)}};
  EXPECT_THAT(error_of([&] { open_tfrecord(options); }),
              AllOf(HasSubstr("shard, offset " + std::to_string(first.size()) + ": "),
                    HasSubstr("the checksum of its payload differs")));
  auto skipping = options;
  skipping.skip_bad = true;
  const auto dataset = open_tfrecord(skipping);
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(2));

  text[first.size() + 40] ^= 1;
  text[first.size() + 2] ^= 1;  // in its length: nothing behind it can be found
  folder.write("shard", text);
  EXPECT_THAT(
      error_of([&] { open_tfrecord(options); }),
      AllOf(HasSubstr("the checksum of its length differs"), HasSubstr("no record behind it")));
  EXPECT_EQ(open_tfrecord(skipping)->size(), 1);
}

/// The index is whole, the file changes afterwards.
TEST(TfRecordFiles, VerifyARecordWhenItIsFirstRead) {
  const TemporaryFolder folder;
  const auto file = folder.write("shard", example_record(0, 0) + example_record(1, 1));
  const auto dataset = open_tfrecord({.files = {file}});
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(40).put('?');
  EXPECT_THAT(error_of([&] { bytes_at(*dataset, 0); }),
              AllOf(HasSubstr("shard, offset 0: "), HasSubstr("checksum of its payload differs")));
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(1));
}

TEST(TfRecordFiles, RefuseWhatIsNoImage) {
  const TemporaryFolder folder;
  const std::string text(100, 'x');
  const auto record =
      to_tfrecord(to_message({.encoded = as_numbers(text), .format = "raw", .label = 0}));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {folder.write("shard", record)}}); }),
              HasSubstr("needs a JPEG or PNG as image/encoded, received 100 bytes"));
  EXPECT_THAT(
      error_of([&] { open_tfrecord({.files = {folder.write("no", to_tfrecord("\xff"))}}); }),
      HasSubstr("needs a whole message"));
}

std::string gz(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(TfRecordFiles, AreDecompressedOnce) {
  const TemporaryFolder folder;
  const auto file = folder.write("shard.gz", gz(example_record(0, 0) + example_record(1, 1)));
  EXPECT_TRUE(is_tfrecord(file));
  const auto copies = [&] {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(folder.path() / ".dimred"))
      if (item.path().filename().string().starts_with("inflated-")) names.push_back(item.path());
    return names;
  };
  const auto dataset = open_tfrecord({.files = {file}});
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(1));
  EXPECT_THAT(dataset->origin(1), HasSubstr("shard.gz, offset "));
  const auto first = copies();
  ASSERT_EQ(first.size(), 1U);
  open_tfrecord({.files = {file}});
  EXPECT_EQ(copies(), first);
  folder.write("shard.gz", gz(example_record(5, 0)));
  EXPECT_EQ(bytes_at(*open_tfrecord({.files = {file}}), 0), image_file(5));
  EXPECT_EQ(copies().size(), 1U);
  EXPECT_NE(copies(), first);
}

TEST(TfRecordFiles, BoundWhatIsDecompressed) {
  const TemporaryFolder folder;
  const auto bomb = folder.write("bomb.gz", gz(std::string(80 << 20, '\0')));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {bomb}}); }),
              AllOf(HasSubstr("bomb.gz"), HasSubstr("needs to hold at most 100 times")));
  const auto whole = gz(example_record(0, 0));
  const auto cut = folder.write("cut.gz", whole.substr(0, whole.size() - 10));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {cut}}); }),
              AllOf(HasSubstr("cut.gz, offset "), HasSubstr("needs a complete, undamaged file")));
}

TEST(Base64Files, ComeFromTheirList) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  folder.write("data/a", base64_line(0, 0));
  folder.write("data/b", base64_line(1, 1));
  const auto list = folder.write("file_list.txt", "data/b\r\ndata/a \n\n");
  const auto dataset = open_base64({.files = {list}});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(bytes_at(*dataset, 0), image_file(1));
  folder.write("file_list.txt", "data/c\n");
  EXPECT_THAT(error_of([&] { open_base64({.files = {list}}); }),
              HasSubstr("file_list.txt names data/c, which is no file"));
  folder.write("file_list.txt", "\n");
  EXPECT_THAT(error_of([&] { open_base64({.files = {list}}); }),
              HasSubstr("at least one file name"));
}

TEST(Base64Files, MayBeginWithAnEmptyLine) {
  const TemporaryFolder folder;
  const auto dataset =
      open_base64({.files = {folder.write("part", "\n" + base64_line(0, 12, true))}});
  EXPECT_EQ(label_at(*dataset, 0), 12);
}

TEST(Base64Files, NameBadLines) {
  const TemporaryFolder folder;
  const auto good = base64_line(0, 0);
  const auto at = std::to_string(good.size());
  const auto problem = [&](const std::string& line) {
    return error_of([&] { open_base64({.files = {folder.write("part", good + line)}}); });
  };
  EXPECT_THAT(problem("nothing\n"),
              AllOf(HasSubstr("part, offset " + at), HasSubstr("needs base64<TAB>label")));
  EXPECT_THAT(problem(base64_line(1, 1, true)), HasSubstr("as the first line of the file has it"));
  EXPECT_THAT(problem("AAAA\t1\n"), HasSubstr("received that of 3 bytes"));
  EXPECT_THAT(problem(base64_line(1, 1).substr(1)), HasSubstr("multiple of 4"));
  auto spaced = base64_line(1, 1);
  spaced[10] = ' ';
  EXPECT_THAT(
      problem(spaced),
      AllOf(HasSubstr("offset " + std::to_string(good.size() + 10)), HasSubstr("needs letters")));
  EXPECT_THAT(problem(to_base64(as_numbers(image_file(1))) + "\t1x\n"),
              HasSubstr("needs base64<TAB>label"));
  EXPECT_EQ(problem("\n\r\n" + base64_line(1, 1).substr(0, base64_line(1, 1).size() - 1)), "");
}

TEST(Shards, AreFoundByNameOfTheirSplit) {
  const TemporaryFolder folder;
  for (const auto* name : {"flowers_train_00010-of-11.tfrecord",
                           "flowers_train_00002-of-11.tfrecord",
                           "flowers_validation_0.tfrecord",
                           "labels.txt",
                           ".train",
                           "train-1.tmp"})
    folder.write(name, "x");
  const auto names = [](const std::vector<fs::path>& files) {
    std::vector<std::string> texts;
    for (const auto& file : files) texts.push_back(file.filename());
    return texts;
  };
  EXPECT_THAT(
      names(find_shards(folder.path(), true)),
      ElementsAre("flowers_train_00002-of-11.tfrecord", "flowers_train_00010-of-11.tfrecord"));
  EXPECT_THAT(names(find_shards(folder.path(), false)),
              ElementsAre("flowers_validation_0.tfrecord"));
  EXPECT_EQ(find_shards(folder.path() / "*_train_*", true).size(), 2U);
  EXPECT_EQ(find_shards(folder.write("list.txt", "labels.txt\n"), true).size(), 1U);
  const TemporaryFolder deep;
  fs::create_directory(deep / "val");
  deep.write("val/b", "x");
  deep.write("val/a", "x");
  EXPECT_THAT(names(find_shards(deep.path(), false)), ElementsAre("a", "b"));
  EXPECT_THAT(error_of([&] { find_shards(deep.path(), true); }), HasSubstr("needs a file, a list"));
  EXPECT_THAT(error_of([&] { find_shards(deep.path() / "no*", true); }), HasSubstr("no*"));
}

}  // namespace
}  // namespace dimred::data
