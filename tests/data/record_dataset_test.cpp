#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

#include "data/record_readers.h"
#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

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
      AllOf(HasSubstr("part-0 and 1 more file"), HasSubstr("6 images of 3 classes, xxh3 ")));
  const auto order = GetParam() == "label first" ? "label<TAB>base64" : "base64<TAB>label";
  EXPECT_EQ(dataset->description().find(order) != std::string::npos, !is_tf());
  EXPECT_THAT(dataset->origin(3), HasSubstr("part-1, offset "));
}

TEST_P(RecordFiles, TakeNamesFromLabelsTxt) {
  folder.write("labels.txt", "0:daisy\n1:rose, red\r\n2:tulip\n");
  EXPECT_THAT(open()->class_names(), ElementsAre("daisy", "rose, red", "tulip"));
  folder.write("labels.txt", "daisy\nrose\ntulip\nweed");
  EXPECT_THAT(open()->class_names(), ElementsAre("daisy", "rose", "tulip", "weed"));
  EXPECT_THAT(failure({.dataset = {.num_classes = 3}}),
              AllOf(HasSubstr("labels.txt lists 4 classes"),
                    HasSubstr("num_classes needs to be 0 or at least this number, received 3")));
  folder.write("labels.txt", "0:daisy\n2:rose\n");
  EXPECT_THAT(failure(), HasSubstr("labels.txt:2: needs the line \"1:NAME\", received 2:rose"));
}

TEST_P(RecordFiles, OfATestSetNeedTheTrainingSetsNames) {
  const std::vector<std::string> names = {"daisy", "rose", "tulip"};
  EXPECT_EQ(open({.class_names = names})->class_names(), names);
  folder.write("labels.txt", "0:daisy\n1:rose\n2:tulip\n");
  EXPECT_EQ(open({.class_names = names})->class_names(), names);
  folder.write("labels.txt", "0:rose\n1:daisy\n2:tulip\n");
  EXPECT_THAT(failure({.class_names = names}),
              HasSubstr("label 0 is daisy in the training set and rose in this file"));
}

TEST_P(RecordFiles, SayHowManyMoreWereSkipped) {
  std::string text;
  for (int i = 0; i < 14; ++i) text += record(i, i < 12 ? 99 : i % 3);
  files = {folder.write("one", text)};
  const auto notes = open({.dataset = {.num_classes = 3, .skip_bad = true}})->notes();
  ASSERT_EQ(notes.size(), 11U);
  EXPECT_EQ(notes.back(), "skipped 2 more");
}

TEST_P(RecordFiles, SubtractTheLabelsOffset) {
  files = {folder.write("one", record(0, 1) + record(1, 2))};
  folder.write("labels.txt", "0:background\n1:cat\n2:dog\n");
  const auto dataset = open({.dataset = {.labels_offset = 1}});
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(label_at(*dataset, 0), 0);
  EXPECT_EQ(label_at(*dataset, 1), 1);
  EXPECT_THAT(dataset->description(), HasSubstr("stored labels less 1"));
  EXPECT_THAT(dataset->notes(),
              ElementsAre(AllOf(HasSubstr("labels_offset = 1 leaves out the first 1 name of "),
                                HasSubstr("labels.txt: background"))));
  folder.write("labels.txt", "cat\ndog\n");  // no background
  EXPECT_THAT(
      failure({.dataset = {.labels_offset = 1}}),
      AllOf(HasSubstr("needs a label in [1, 2), received 2"), HasSubstr("labels.txt: cat")));
  folder.write("labels.txt", "background\ncat\ndog\n");
  EXPECT_THAT(open()->notes(),
              ElementsAre(HasSubstr("with --labels_offset 1 this label becomes class 0, and "
                                    "labels.txt loses its first 1 name")));
}

TEST_P(RecordFiles, NameLabelsThatNoRecordHas) {
  files = {folder.write("one", record(0, 0) + record(1, 4) + record(2, 2))};
  EXPECT_THAT(open()->notes(),
              ElementsAre("no record has the label 1, 3; the network has an output for each label "
                          "from 0 to 4"));
  EXPECT_TRUE(open({.class_names = numbered_classes(5)})->notes().empty());  // a test set
}

TEST_P(RecordFiles, NameALabelOutOfRange) {
  EXPECT_THAT(
      failure({.dataset = {.num_classes = 2}}),
      AllOf(HasSubstr("part-0, offset "), HasSubstr("needs a label in [0, 2), received 2")));
  files = {folder.write("one", record(0, 1) + record(1, -1))};
  EXPECT_THAT(failure(), HasSubstr("needs a label in [0, 2), received -1"));
  files = {folder.write("one", record(0, 1) + record(1, std::int64_t{1} << 62))};
  EXPECT_THAT(failure(), HasSubstr("received 4611686018427387904"));
}

/// Its difference to the offset would overflow.
TEST_P(RecordFiles, LeaveTheLeastLabelsOutAndKeepTheOthersClasses) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [offset, bad] :
       {std::pair{std::int64_t{1}, least}, {2, least + 1}, {-1, most}}) {
    files = {folder.write("one", record(0, 2) + record(1, bad) + record(2, 3))};
    const auto dataset = open({.dataset = {.labels_offset = offset, .skip_bad = true}});
    ASSERT_EQ(dataset->size(), 2) << offset;
    EXPECT_EQ(dataset->classes(), 4 - offset);
    EXPECT_EQ(label_at(*dataset, 1), 3 - offset);
  }
}

TEST_P(RecordFiles, LeaveBadRecordsOutAndCountThem) {
  files = {folder.write("one", record(0, 1) + record(1, 5) + record(2, 0))};
  const auto dataset = open({.dataset = {.num_classes = 2, .skip_bad = true}});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(bytes_at(*dataset, 1), image_file(2));
  EXPECT_THAT(dataset->description(), HasSubstr("1 bad record skipped"));
  files = {folder.write("one", record(0, 9))};
  EXPECT_THAT(failure({.dataset = {.num_classes = 2, .skip_bad = true}}),
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
  // Base64 is cut, but not by a multiple of 4: the rest of it is then no Base64.
  files = {folder.write("cut", whole.substr(0, whole.size() - 10))};
  EXPECT_THAT(failure(), HasSubstr("cut, offset "));
  EXPECT_EQ(open({.dataset = {.skip_bad = true}})->size(), 1);
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
  open({.dataset = {.cache = folder.path() / "elsewhere"}});
  EXPECT_FALSE(fs::exists(folder.path() / ".dimred"));
  EXPECT_FALSE(fs::is_empty(folder.path() / "elsewhere"));
  EXPECT_THAT(failure({.dataset = {.cache = files[0] / "below a file"}}),
              HasSubstr("needs a writable folder"));
}

}  // namespace
}  // namespace dimred::data
