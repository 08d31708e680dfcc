#include "data/open.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/class_names.h"
#include "support/errors.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

TEST(OpenDataset, FindsTheKindAndTheParts) {
  const TemporaryFolder folder;
  put(folder / "train/b/1.png", image(1));
  put(folder / "train/a/1.png", image(2));
  put(folder / "val/a/1.png", image(3));
  EXPECT_EQ(kind_of(folder.path()), "folder");
  DatasetOptions options{.path = folder.path()};
  const auto train = open_dataset(options, true);
  const auto missing =
      thrown<std::invalid_argument>([&] { open_dataset(options, false, train->class_names()); });
  EXPECT_NE(
      missing.find(
          "needs the training set's 2 classes, received 1 classes; only one of the two sets has b"),
      std::string::npos)
      << missing;
  put(folder / "val/b/1.png", image(4));
  EXPECT_EQ(open_dataset(options, false, train->class_names())->size(), 2);
  options.num_classes = 1;
  const auto classes = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_NE(
      classes.find("num_classes needs to be at least the number of classes in the training set (2"),
      std::string::npos);
  options.num_classes = 3;
  const std::shared_ptr<const Dataset> two = open_dataset(options, true);
  EXPECT_EQ(two->classes(), 2);
  const auto three = with_unused_classes(two, options.num_classes);
  EXPECT_EQ(three->class_names(), (std::vector<std::string>{"a", "b", "unused 2"}));
  EXPECT_EQ(shade_of(*three, 0), shade_of(*two, 0));
  EXPECT_EQ(three->digest(), two->digest());
  options.num_samples = two->size() + 1;
  const auto samples = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_NE(samples.find("num_samples needs to be the size of the training set"),
            std::string::npos);
  options = {.path = folder / "train"};
  const auto test = thrown<std::invalid_argument>([&] { open_dataset(options, false); });
  EXPECT_NE(test.find("give the set with --test_data"), std::string::npos) << test;
  options.test_path = folder / "val";
  EXPECT_EQ(shade_of(*open_dataset(options, false), 0), 3);
  EXPECT_THROW(kind_of(folder / "nowhere"), std::invalid_argument);
  options = {.kind = "mock", .num_classes = 5, .mock_shape = {1, 8, 8}};
  EXPECT_EQ(open_dataset(options, true)->shape(), (ImageShape{1, 8, 8}));
  options.num_samples = 7;
  EXPECT_EQ(open_dataset(options, true)->size(), 7);
}

struct FolderCase {
  std::vector<std::string> images;
  std::vector<std::string> classes;  // of the training set
  std::string refusal;
};

/// A part of a data set never becomes a class, and neither does a hidden folder.
TEST(OpenDataset, TellsPartsFromClasses) {
  const std::vector<FolderCase> cases{
      {{"Training/cat/1.png", "Training/dog/1.png", "Testing/cat/1.png", "Testing/dog/1.png"},
       {"cat", "dog"},
       ""},
      {{"TRAIN/cat/1.png", "Valid/cat/1.png"}, {"cat"}, ""},
      {{"fold_1/cat/1.png", "fold_1/dog/1.png", "fold_2/cat/1.png", "fold_2/dog/1.png"},
       {},
       "the folders fold_1, fold_2 may be classes, or parts of a data set with the classes cat, "
       "dog"},
      {{"train/train/cat/1.png", "train/train/dog/1.png"}, {}, "train may be classes, or"},
      {{"seg_train/seg_train/a/1.png"}, {}, "seg_train may be classes, or"},
      {{"1.png", "2.png"}, {}, "but images; a pattern"},
      {{"seg_train/seg_train/a/1.png", "seg_test/seg_test/a/1.png"},
       {},
       "seg_test, seg_train may be classes"},
      {{"a/images/1.png", "b/images/1.png"}, {"a", "b"}, ""},  // Tiny ImageNet's
      {{"a/1.png", "a/x/1.png", "a/y/1.png", "b/x/1.png", "b/y/1.png"}, {"a", "b"}, ""},
      {{"train_station/1.png", "test_tube/1.png"}, {"test_tube", "train_station"}, ""},
      {{"a/1.png", "a/.ipynb_checkpoints/1-checkpoint.png", ".b/1.png"}, {"a"}, ""},
      {{"a/1.png", "a/@eaDir/1.png/SYNOPHOTO_THUMB_M.jpg", "@eaDir/1.png"}, {"a"}, ""},  // Synology
      {{"a/1.png", "lost+found/1.png", "$RECYCLE.BIN/S-1-5/1.png"}, {"a"}, ""}};
  for (const auto& [images, classes, refusal] : cases) {
    const TemporaryFolder folder;
    for (const auto& file : images) put(folder / file, image(1));
    SCOPED_TRACE(images.front());
    std::shared_ptr<const Dataset> train;
    const auto text =
        failure_of([&] { train = open_dataset({.path = folder.path()}, /*train=*/true); });
    EXPECT_NE(text.find(refusal), std::string::npos) << text;
    EXPECT_EQ(text.empty(), refusal.empty()) << text;
    if (!train) continue;
    EXPECT_EQ(train->class_names(), classes);
    const auto of_test = std::ranges::count_if(images, [](const auto& file) {
      return file.starts_with("Testing") || file.starts_with("Valid");
    });
    const auto hidden = std::ranges::count_if(images, [](const auto& file) {
      return file.find("/.") != file.npos || file.find_first_of(".@l$") == 0 ||
             file.find("/@eaDir") != file.npos;
    });
    EXPECT_EQ(train->size(), std::ssize(images) - of_test - hidden);
    const auto as_said = open_dataset({.kind = "folder", .path = folder.path()}, true);
    EXPECT_EQ(as_said->class_names(), classes);
  }
  const TemporaryFolder folder;
  put(folder / "fold_1/cat/1.png", image(1));
  put(folder / "fold_1/dog/1.png", image(1));
  EXPECT_EQ(open_dataset({.kind = "folder", .path = folder.path()}, true)->class_names(),
            std::vector<std::string>{"fold_1"});
}

/// One line with what is there, not with what another reader would have needed.
TEST(OpenDataset, SaysWhatTheFilesSeemToBe) {
  const auto refusal = [](const std::string& name, const std::string& content) {
    const TemporaryFolder folder;
    put(folder / name, content);
    return failure_of([&] { open_dataset({.path = folder.path()}, /*train=*/true); });
  };
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"train-00000-of-00001", "\x78\x9c" + std::string(30, 'z'), "which is compressed with zlib"},
      {"train-00000-of-00001", "\x1f\x8b\x08", "which is gz that is damaged or cut off"},
      {"emnist-letters-train-images-idx3-ubyte", "x", "train-images-idx3-ubyte"},
      {"data_batch_1", "\x80\x02}", "the binary version is read"},
      {"train-00000-of-00001", std::string(40, '1'), "does not begin as a TFRecord shard does"},
      {"train.parquet", "PAR1", "is a Parquet file"},
      {"data.mindrecord", std::string(8, '\1') + "{\"header_size\":1", "is a MindRecord file"},
      {"data.mdb", std::string(16, '\0') + "\xDE\xC0\xEF\xBE", "is an LMDB file"},
      {"images.zip", "PK\x03\x04", "is an archive"},
      {"images.tar", std::string(257, 'a') + "ustar", "is an archive"}};
  for (const auto& [name, content, expected] : cases)
    EXPECT_NE(refusal(name, content).find(expected), std::string::npos) << refusal(name, content);
}

/// As phones, browsers and scanners write them: in a class folder, and under an image's name.
TEST(OpenDataset, NamesTheImagesThatItCannotDecode) {
  const std::vector<std::pair<std::string, std::string>> images{
      {std::string("\0\0\0\x1C", 4) + "ftypavif", "an AVIF image"},
      {std::string("\0\0\0\x1C", 4) + "ftypavis", "an AVIF image"},
      {std::string("\0\0\0\x18", 4) + "ftypheic", "a HEIC image"},
      {std::string("\0\0\0\x18", 4) + "ftypmif1", "a HEIC image"},
      {"\xFF\x0A\x7F", "a JPEG XL image"},
      {std::string("\0\0\0\x0CJXL \r\n\x87\n", 12), "a JPEG XL image"},
      {std::string("\0\0\0\x0CjP  \r\n\x87\n", 12), "a JPEG 2000 image"},
      {"\xFF\x4F\xFF\x51", "a JPEG 2000 image"},
      {std::string("RIFF\1\0\0\0WEBP", 12), "a WebP image"},
      {std::string(128, '\0') + "DICM", "a DICOM image"}};
  for (const auto& [bytes, expected] : images) {
    const TemporaryFolder folder;
    put(folder / "a/1.pic", bytes);
    const auto in_class = failure_of([&] { open_dataset({.path = folder.path()}, true); });
    EXPECT_NE(in_class.find("; there is 1.pic, which is " + expected), std::string::npos)
        << in_class;
    put(folder / "a/1.jpg", bytes);
    const auto named =
        failure_of([&] { shade_of(*open_dataset({.path = folder.path()}, true), 0); });
    EXPECT_NE(named.find(", which is " + expected), std::string::npos) << named;
  }
}

/// A file that a reader takes is not what is wrong.
TEST(OpenDataset, DoesNotBlameTheFilesThatAreRight) {
  const TemporaryFolder mnist, arrays, shards;
  put(mnist / "train-images-idx3-ubyte", "x");
  put(mnist / "train-labels.idx1-ubyte.gz", "x");
  const auto without_test =
      failure_of([&] { open_dataset({.path = mnist.path()}, /*train=*/false); });
  EXPECT_NE(without_test.find("t10k-images-idx3-ubyte"), std::string::npos) << without_test;
  EXPECT_EQ(without_test.find("there is"), std::string::npos) << without_test;
  put(mnist / "test-images.idx3-ubyte", "x");
  const auto renamed = failure_of([&] { open_dataset({.path = mnist.path()}, /*train=*/false); });
  EXPECT_NE(
      renamed.find("there is test-images.idx3-ubyte, which has the form of MNIST's files, but "
                   "not their names"),
      std::string::npos)
      << renamed;
  const auto file = failure_of(
      [&] { open_dataset({.path = mnist / "train-images-idx3-ubyte"}, /*train=*/true); });
  EXPECT_NE(file.find("which is read with the other files of its data set"), std::string::npos)
      << file;
  put(arrays / "labels.npy", "\x93NUMPY");
  put(arrays / "data_batch_1.bin.part", "x");
  const auto alone = failure_of([&] { open_dataset({.path = arrays.path()}, /*train=*/true); });
  EXPECT_EQ(alone.find("which is a NumPy array"), std::string::npos) << alone;
}

/// macOS writes accents as letters of their own.
TEST(OpenDataset, SaysThatNamesWhichLookTheSameDiffer) {
  const TemporaryFolder folder;
  put(folder / "train/caf\xC3\xA9/1.png", image(1));
  put(folder / "test/cafe\xCC\x81/1.png", image(1));
  const auto text =
      failure_of([&] { open_dataset({.path = folder.path()}, /*train=*/false, {"caf\xC3\xA9"}); });
  EXPECT_NE(text.find("NFC, look the same and are different: rename cafe\xCC\x81"),
            std::string::npos)
      << text;
  put(folder / "train/cafe\xCC\x81/1.png", image(1));
  const DatasetOptions options{.path = folder.path()};
  const auto both = failure_of([&] { open_dataset(options, /*train=*/true); });
  EXPECT_NE(both.find("rename cafe\xCC\x81"), std::string::npos) << both;
  EXPECT_EQ(failure_of([&] { parse_class_names("caf\xC3\xA9\ntea\n", "labels.txt"); }), "");
  const auto listed =
      failure_of([&] { parse_class_names("caf\xC3\xA9\ncafe\xCC\x81\n", "labels.txt"); });
  EXPECT_NE(listed.find("labels.txt:2"), std::string::npos) << listed;
  EXPECT_NE(listed.find("rename cafe\xCC\x81"), std::string::npos) << listed;
}

/// A folder of a file system without case would hold both.
TEST(OpenDataset, RefusesNamesThatDifferInCaseAloneInAnyScript) {
  const TemporaryFolder folder;
  put(folder / "train/\xC3\x89t\xC3\xA9/1.png", image(1));  // É and é
  put(folder / "train/\xC3\xA9t\xC3\xA9/1.png", image(1));
  const DatasetOptions options{.path = folder.path()};
  const auto text = failure_of([&] { open_dataset(options, /*train=*/true); });
  EXPECT_NE(text.find("differ by more than case"), std::string::npos) << text;
}

TEST(OpenDataset, SaysThatThereIsNoTestSetByItsType) {
  const TemporaryFolder folder;
  put(folder / "test_data/train/a/1.png", image(1));
  put(folder / "test_data/train/b/1.png", image(1));
  const DatasetOptions options{.path = folder / "test_data"};
  EXPECT_EQ(open_test_set_if_any(options, {"a", "b"}), nullptr);
  put(folder / "test_data/test/a/1.png", image(1));  // one class of two: an error, not absence
  EXPECT_THROW(open_test_set_if_any(options, {"a", "b"}), std::invalid_argument);
  EXPECT_THROW(
      open_test_set_if_any({.path = folder / "test_data/train", .test_path = folder / "nowhere"},
                           {"a", "b"}),
      std::invalid_argument);
}

TEST(OpenDataset, RefusesOptionsWithoutEffect) {
  const TemporaryFolder folder;
  put(folder / "train/a/1.png", image(1));
  const auto text = [&](DatasetOptions options) {
    if (options.kind != "mock") options.path = folder.path();
    return thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  };
  EXPECT_NE(text({.labels_offset = 1})
                .find("labels_offset needs TFRecord or Base64 files, received 1 with data of the "
                      "kind folder"),
            std::string::npos);
  EXPECT_NE(text({.cache = "x"}).find("data_cache needs TFRecord"), std::string::npos);
  EXPECT_NE(text({.mock_shape = {1, 2, 3}}).find("mock_shape needs dataset = mock"),
            std::string::npos);
  EXPECT_NE(text({.kind = "mock", .mock_shape = {3.5, 2, 3}})
                .find("mock_shape needs whole numbers, received 3.5"),
            std::string::npos);
  const auto path = thrown<std::invalid_argument>(
      [&] { open_dataset({.kind = "mock", .path = folder.path()}, true); });
  EXPECT_NE(path.find("data needs another dataset"), std::string::npos) << path;
}

}  // namespace
}  // namespace dimred::data
