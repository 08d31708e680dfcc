#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "data/inflated_file.h"
#include "data/open.h"
#include "data/packed.h"
#include "data/record_readers.h"
#include "data/shard_names.h"
#include "data/tfrecord.h"
#include "support/errors.h"
#include "tests/data/record_files.h"
#include "tests/tools/words.h"

// Facts of only one form of record files: checksums and compression of TFRecord, lists and lines of
// Base64, names of shards.
namespace dimred::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

/// "jpeg", "JPG" or "png" may be wrong; what names neither form says nothing.
TEST(TfRecordFiles, CountRecordsOfAnotherFormatThanTheySay) {
  const TemporaryFolder folder;
  const auto image = image_file(1);
  const auto record = [&](const char* format) {
    return to_tfrecord(to_message({.encoded = as_numbers(image), .format = format, .label = 0}));
  };
  const auto sound = record("png") + record("PNG") + record("") + record("raw");
  const RecordOptions options{.files = {folder.write("a", sound), folder.write("b", sound)}};
  EXPECT_TRUE(open_tfrecord(options)->notes().empty());
  folder.write("b", sound + record("jpeg") + record("JPG"));
  for (int opened = 0; opened < 2; ++opened) {  // then from the cache
    const auto dataset = open_tfrecord(options);
    EXPECT_EQ(bytes_at(*dataset, 8), image);
    EXPECT_THAT(dataset->notes(),
                ElementsAre(formatted(
                    "2 records have another format than their image/format says; dimred uses the "
                    "format of the content; the first such record is {}, offset {}",
                    (folder / "b").string(),
                    sound.size())));
  }
}

TEST(RecordFileNames, ArePrintedInUtf8) {
  const TemporaryFolder folder;
  const auto path = folder / "a\xFF\n";
  const auto name = (folder / "a").string() + "\\xFF\\x0A";
  EXPECT_THAT(error_of([&] { open_packed(path); }), HasSubstr(name + "' does not exist"));
  put_file(path, "rubbish");
  EXPECT_THAT(error_of([&] { open_packed(path); }), HasSubstr(name));
  put_file(path, std::string("\x1F\x8B", 2));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {path}}); }), HasSubstr(name));
  EXPECT_THAT(error_of([&] { first_bytes(path / "none", 1); }), HasSubstr(name));
}

TEST(TfRecordFiles, NameAWrongChecksum) {
  const TemporaryFolder folder;
  const auto first = example_record(0, 0);
  auto text = first + example_record(1, 1) + example_record(2, 2);
  text[first.size() + 40] ^= 1;  // in the second record's payload
  const RecordOptions options{.files = {folder.write("shard", text)}};
  EXPECT_THAT(error_of([&] { open_tfrecord(options); }),
              AllOf(HasSubstr(formatted("shard, offset {}: ", first.size())),
                    HasSubstr("the payload does not match its checksum")));
  auto skipping = options;
  skipping.dataset.skip_bad = true;
  const auto dataset = open_tfrecord(skipping);
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(2));

  text[first.size() + 40] ^= 1;
  text[first.size() + 2] ^= 1;  // in its length: nothing behind it can be found
  folder.write("shard", text);
  EXPECT_THAT(error_of([&] { open_tfrecord(options); }),
              AllOf(HasSubstr("the length does not match its checksum"),
                    HasSubstr("no later record of this file can be found")));
  EXPECT_EQ(open_tfrecord(skipping)->size(), 1);
}

/// The index is whole, the file changes afterwards.
TEST(TfRecordFiles, VerifyARecordWhenItIsFirstRead) {
  const TemporaryFolder folder;
  const auto file = folder.write("shard", example_record(0, 0) + example_record(1, 1));
  const auto dataset = open_tfrecord({.files = {file}});
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(40).put('?');
  EXPECT_THAT(
      error_of([&] { bytes_at(*dataset, 0); }),
      AllOf(HasSubstr("shard, offset 0: "), HasSubstr("the payload does not match its checksum")));
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(1));
}

TEST(TfRecordFiles, RefuseWhatIsNoImage) {
  const TemporaryFolder folder;
  const std::string text(100, 'x');
  const auto record =
      to_tfrecord(to_message({.encoded = as_numbers(text), .format = "raw", .label = 0}));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {folder.write("shard", record)}}); }),
              HasSubstr("image/encoded needs a JPEG or PNG image, received 100 bytes"));
  EXPECT_THAT(
      error_of([&] { open_tfrecord({.files = {folder.write("no", to_tfrecord("\xff"))}}); }),
      HasSubstr("needs a whole protobuf message"));
}

std::string gz_form(const std::string& text) {
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
  const auto file = folder.write("shard.gz", gz_form(example_record(0, 0) + example_record(1, 1)));
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
  folder.write("shard.gz", gz_form(example_record(5, 0)));
  EXPECT_EQ(bytes_at(*open_tfrecord({.files = {file}}), 0), image_file(5));
  EXPECT_EQ(copies().size(), 1U);
  EXPECT_NE(copies(), first);
}

TEST(TfRecordFiles, BoundWhatIsDecompressed) {
  const TemporaryFolder folder;
  const auto bomb = folder.write("bomb.gz", gz_form(std::string(80 << 20, '\0')));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {bomb}}); }),
              AllOf(HasSubstr("bomb.gz"),
                    HasSubstr("the decompressed file is more than 100 times as large")));
  const auto whole = gz_form(example_record(0, 0));
  const auto cut = folder.write("cut.gz", whole.substr(0, whole.size() - 10));
  EXPECT_THAT(error_of([&] { open_tfrecord({.files = {cut}}); }),
              AllOf(HasSubstr("cut.gz, offset "),
                    HasSubstr("the compressed file is damaged or incomplete: ")));
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
              HasSubstr("file_list.txt:1 lists data/c, which is not a file"));
  folder.write("file_list.txt", "\n");
  EXPECT_THAT(error_of([&] { open_base64({.files = {list}}); }),
              HasSubstr("at least one file name"));
}

TEST(Base64Files, MayBeginWithAnEmptyLine) {
  const TemporaryFolder folder;
  const auto dataset =
      open_base64({.files = {folder.write("part", formatted("\n{}", base64_line(0, 12, true)))}});
  EXPECT_EQ(label_at(*dataset, 0), 12);
}

TEST(Base64Files, NameBadLines) {
  const TemporaryFolder folder;
  const auto good = base64_line(0, 0);
  const auto at = formatted("part, offset {}", good.size());
  const auto problem = [&](const std::string& line) {
    return error_of([&] { open_base64({.files = {folder.write("part", good + line)}}); });
  };
  EXPECT_THAT(problem("nothing\n"),
              AllOf(HasSubstr(at),
                    HasSubstr("needs one tab, between the image in Base64 and its label, received "
                              "0 tabs in nothing")));
  EXPECT_THAT(problem("AAAA\t1\t2\n"), HasSubstr("received 2 tabs"));
  EXPECT_THAT(problem(base64_line(1, 1, true)), HasSubstr("as in the first line of the file"));
  EXPECT_THAT(problem("AAAA\t1\n"), HasSubstr("received 3 bytes"));
  EXPECT_THAT(problem(base64_line(1, 1).substr(1)), HasSubstr("multiple of 4"));
  auto spaced = base64_line(1, 1);
  spaced[10] = ' ';
  EXPECT_THAT(
      problem(spaced),
      AllOf(HasSubstr(formatted("offset {}", good.size() + 10)), HasSubstr("needs letters")));
  for (const auto* label : {"1x", "cat", " 1"})
    EXPECT_THAT(
        problem(formatted("{}\t{}\n", to_base64(as_numbers(image_file(1))), label)),
        HasSubstr(formatted("needs a whole number without blanks as label, received {}", label)));
  const auto first = formatted("cat\t{}\n", to_base64(as_numbers(image_file(1))));
  EXPECT_THAT(error_of([&] { open_base64({.files = {folder.write("part", first)}}); }),
              HasSubstr("needs a whole number without blanks as label, received cat"));
  EXPECT_EQ(problem("\n\r\n" + base64_line(1, 1).substr(0, base64_line(1, 1).size() - 1)), "");
}

TEST(Shards, AreFoundByNameOfTheirSplit) {
  const TemporaryFolder folder;
  for (const auto& name : words("flowers_train_10.tfrecord flowers_train_2.tfrecord "
                                "flowers_validation_0.tfrecord labels.txt train_labels.csv "
                                "train.tfrecord.md5 _SUCCESS .train train-1.tmp train-1.part "
                                "train-1.part.of"))
    folder.write(name, "x");
  const auto names = [](const std::vector<fs::path>& files) {
    std::vector<std::string> texts;
    for (const auto& file : files) texts.push_back(file.filename());
    return texts;
  };
  EXPECT_THAT(names(find_shards(folder.path(), true)),
              ElementsAre("flowers_train_2.tfrecord", "flowers_train_10.tfrecord"));
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
  const TemporaryFolder plain;  // FastNN's flowers
  for (const char* name : {"0.tfrecord", "1.tfrecord", "labels.txt", "eval.tfrecord"})
    plain.write(name, "x");
  EXPECT_THAT(names(find_shards(plain.path(), true)), ElementsAre("0.tfrecord", "1.tfrecord"));
  EXPECT_THAT(names(find_shards(plain.path() / "{1,eval}.tfrecord", true)),
              ElementsAre("1.tfrecord", "eval.tfrecord"));
  EXPECT_THAT(error_of([&] { find_shards(deep.path() / "no*", true); }), HasSubstr("no*"));
  const TemporaryFolder many;
  for (const char* name : {"train-0-of-2", "train-1-of-2", "train-2-of-2"}) many.write(name, "x");
  EXPECT_THAT(error_of([&] { find_shards(many.path(), true); }),
              HasSubstr("needs 2 shards, received 3"));
  // A compressed copy has the same samples.
  plain.write("1.tfrecord.gz", "x");
  for (const auto& place : {plain.path(), plain.path() / "1*"})
    EXPECT_THAT(error_of([&] { find_shards(place, true); }), HasSubstr("have the same samples"));
  EXPECT_THAT(names(find_shards(plain.path() / "*.tfrecord", true)).size(), 3U);
}

TEST(Shards, OfAnotherTestSetAreLeftOutAndNamed) {
  const TemporaryFolder folder;
  folder.write("train-0", example_record(0, 0) + example_record(1, 1));
  folder.write("val-0", example_record(2, 0));
  const DatasetOptions options{.path = folder.path()};
  const auto test = [&] { return open_dataset(options, /*train=*/false, {"0", "1"}); };
  EXPECT_TRUE(test()->notes().empty());
  folder.write("test-0", example_record(3, 0));
  const auto found = test();
  ASSERT_EQ(found->size(), 1);
  EXPECT_EQ(bytes_at(*found, 0), image_file(3));
  EXPECT_THAT(found->notes(),
              ElementsAre(AllOf(HasSubstr("takes the shards like test-0, and leaves out 1 shard"),
                                HasSubstr("such as val-0"))));
  EXPECT_TRUE(open_dataset(options, /*train=*/true)->notes().empty());
}

struct NamedFolder {
  std::vector<std::string> files, train, test;
  std::string refusal;  // of the training set, or of the test set
};

TEST(Shards, BelongToTheSplitThatWholeWordsOfTheirNamesSay) {
  const std::vector<NamedFolder> cases{
      {{"latest-train.tfrecord", "latest-val.tfrecord"},
       {"latest-train.tfrecord"},
       {"latest-val.tfrecord"},
       ""},
      {{"retrieval-train.tfrecord", "retrieval-test.tfrecord"},
       {"retrieval-train.tfrecord"},
       {"retrieval-test.tfrecord"},
       ""},
      {{"train-0", "val-0-of-2", "val-1-of-2", "test-0", "eval-0"}, {"train-0"}, {"test-0"}, ""},
      {{"train-0", "eval-0", "validation-1"}, {"train-0"}, {"validation-1"}, ""},
      {{"contest-0", "contest-1"}, {"contest-0", "contest-1"}, {}, ""},
      {{"myTrain2017", "interval-eval"}, {"myTrain2017"}, {"interval-eval"}, ""},
      {{"Training/0", "Valid/0"}, {"0"}, {"0"}, ""},
      {{"train-val-0", "train-1"},
       {},
       {},
       "the file name fits both the training set and the test set"},
      {{"train.tfrecord", "valid.tfrecord", "valid/0"}, {"train.tfrecord"}, {}, "is in two places"},
      {{"train/0", "Train/0"}, {}, {}, "has both train and Train; give one of them with --data"},
      {{"train-00000-of-00003", "train-00002-of-00003"}, {}, {}, "train-*-of-00003"},
      {{"a-train-00001-of-00002", "a-train-00002-of-00002.gz"},
       {"a-train-00001-of-00002", "a-train-00002-of-00002.gz"},
       {},
       ""},
      {{"train-0-of-1", "train-0-of-2", "train-1-of-2"}, {}, {}, "the shards of one set"}};
  for (const auto& [files, train, test, refusal] : cases) {
    const TemporaryFolder folder;
    for (const auto& file : files) {
      fs::create_directories((folder / file).parent_path());
      folder.write(file, "x");
    }
    std::vector<std::string> found[2];
    const auto text = error_of([&] {
      for (const bool of_train : {true, false})
        for (const auto& file : shards_at(folder.path(), of_train))
          found[of_train ? 0 : 1].push_back(file.filename());
    });
    SCOPED_TRACE(files.front());
    EXPECT_THAT(
        text,
        refusal.empty() ? testing::Eq("") : testing::Matcher<std::string>(HasSubstr(refusal)));
    if (!refusal.empty()) continue;
    EXPECT_EQ(found[0], train);
    EXPECT_EQ(found[1], test);
  }
}

}  // namespace
}  // namespace dimred::data
