#include "data/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/base64.h"
#include "data/class_names.h"
#include "data/splits.h"
#include "data/tfrecord.h"
#include "support/bytes.h"
#include "support/errors.h"
#include "support/text.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(missing,
              HasSubstr("needs the same 2 classes as the training set, received 1 classes; only "
                        "one of the two sets has b"));
  put(folder / "val/b/1.png", image(4));
  EXPECT_EQ(open_dataset(options, false, train->class_names())->size(), 2);
  options.num_classes = 1;
  const auto classes = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_THAT(
      classes,
      HasSubstr("num_classes needs to be at least the number of classes in the training set (2"));
  options.num_classes = 3;
  const std::shared_ptr<const Dataset> two = open_dataset(options, true);
  EXPECT_EQ(two->classes(), 2);
  const auto three = with_unused_classes(two, options.num_classes);
  EXPECT_EQ(three->class_names(), (std::vector<std::string>{"a", "b", "unused 2"}));
  EXPECT_EQ(shade_of(*three, 0), shade_of(*two, 0));
  EXPECT_EQ(three->digest(), two->digest());
  options.num_samples = two->size() + 1;
  const auto samples = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_THAT(samples,
              HasSubstr("num_samples needs to equal the size of the training set (2 samples in"));
  options = {.path = folder / "train"};
  const auto test = thrown<std::invalid_argument>([&] { open_dataset(options, false); });
  EXPECT_THAT(test, HasSubstr("give a test set with --test_data"));
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
       "dimred cannot tell whether the folders fold_1, fold_2 are classes, or parts of a data set "
       "with the classes cat, dog"},
      {{"train/train/cat/1.png", "train/train/dog/1.png"}, {}, "train are classes, or"},
      {{"seg_train/seg_train/a/1.png"}, {}, "seg_train are classes, or"},
      {{"1.png", "2.png"}, {}, "but images without a class; move the images into class folders"},
      {{"seg_train/seg_train/a/1.png", "seg_test/seg_test/a/1.png"},
       {},
       "seg_test, seg_train are classes, or"},
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
    EXPECT_THAT(text, HasSubstr(refusal));
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
      {"train-00000-of-00001", "\x1f\x8b\x08", "which is a damaged or incomplete gzip file"},
      {"emnist-letters-train-images-idx3-ubyte", "x", "train-images-idx3-ubyte"},
      {"data_batch_1", "\x80\x02}", "dimred reads the binary version"},
      {"train-00000-of-00001", std::string(40, '1'), "does not begin as a TFRecord shard does"},
      {"train.parquet", "PAR1", "is a Parquet file"},
      {"data.mindrecord", std::string(8, '\1') + "{\"header_size\":1", "is a MindRecord file"},
      {"data.mdb", std::string(16, '\0') + "\xDE\xC0\xEF\xBE", "is an LMDB file"},
      {"images.zip", "PK\x03\x04", "is an archive"},
      {"images.tar", std::string(257, 'a') + "ustar", "is an archive"}};
  for (const auto& [name, content, expected] : cases)
    EXPECT_THAT(refusal(name, content), HasSubstr(expected)) << refusal(name, content);
}

/// As phones, browsers and scanners write them: in a class folder, and under an image's name.
TEST(OpenDataset, NamesTheImagesThatItCannotDecode) {
  const std::vector<std::pair<std::string, std::string>> images{
      {std::string("\0\0\0\x1C", 4) + "ftypavif", "an AVIF image"},
      {std::string("\0\0\0\x1C", 4) + "ftypavis", "an AVIF image"},
      {std::string("\0\0\0\x1C", 4) + "ftypmif1" + std::string(4, '\0') + "avifmif1miaf",
       "an AVIF image"},
      {std::string("\0\0\0\x1C", 4) + "ftypmsf1" + std::string(4, '\0') + "msf1avis",
       "an AVIF image"},
      {std::string("\0\0\0\x18", 4) + "ftypheic" + std::string(4, '\0') + "mif1heic",
       "a HEIC image"},
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
    EXPECT_THAT(in_class, HasSubstr("; the folder has 1.pic, which is " + expected));
    put(folder / "a/1.jpg", bytes);
    const auto named =
        failure_of([&] { shade_of(*open_dataset({.path = folder.path()}, true), 0); });
    EXPECT_THAT(named, HasSubstr(", which is " + expected));
  }
}

/// A file that a reader takes is not what is wrong.
TEST(OpenDataset, DoesNotBlameTheFilesThatAreRight) {
  const TemporaryFolder mnist, arrays, shards;
  put(mnist / "train-images-idx3-ubyte", "x");
  put(mnist / "train-labels.idx1-ubyte.gz", "x");
  const auto without_test =
      failure_of([&] { open_dataset({.path = mnist.path()}, /*train=*/false); });
  EXPECT_THAT(without_test, HasSubstr("t10k-images-idx3-ubyte"));
  EXPECT_THAT(without_test, Not(HasSubstr("the folder has")));
  put(mnist / "test-images.idx3-ubyte", "x");
  const auto renamed = failure_of([&] { open_dataset({.path = mnist.path()}, /*train=*/false); });
  EXPECT_THAT(renamed,
              HasSubstr("the folder has test-images.idx3-ubyte, which is like a file of MNIST, "
                        "but has another name"));
  const auto file = failure_of(
      [&] { open_dataset({.path = mnist / "train-images-idx3-ubyte"}, /*train=*/true); });
  EXPECT_THAT(file, HasSubstr("which is one of several files of a data set"));
  put(arrays / "labels.npy", "\x93NUMPY");
  put(arrays / "data_batch_1.bin.part", "x");
  const auto alone = failure_of([&] { open_dataset({.path = arrays.path()}, /*train=*/true); });
  EXPECT_THAT(alone, Not(HasSubstr("which is a NumPy array")));
}

/// One format would be taken, and the other passed over, without a word.
TEST(OpenDataset, RefusesAFolderOfTwoFormats) {
  const std::vector<std::tuple<std::vector<std::string>, std::string, std::string>> cases{
      {{"train-images-idx3-ubyte", "data_batch_1.bin"}, "idx", "cifar"},
      {{"train-images.idx3-ubyte.gz", "cifar-100-binary/train.bin"}, "idx", "cifar"},
      {{"train-images-idx3-ubyte", "images.npy"}, "idx", "npy"},
      {{"train-images-idx3-ubyte", "train/cat/1.png"}, "idx", "folder"},
      {{"t10k-labels-idx1-ubyte", "test/cat/1.JPG"}, "idx", "folder"},
      {{"train-images-idx3-ubyte", "cat/1.png", "dog/1.jpeg"}, "idx", "folder"},
      {{"data_batch_2.bin", "train/images.npy"}, "cifar", "npy"},
      {{"data_batch_2.bin", "Validation/cat/1.png"}, "cifar", "folder"},
      {{"images.npy", "labels.npy", "cat/1.png", "dog/1.png"}, "npy", "folder"},
      {{"train/images.npy", "train/cat/1.png"}, "npy", "folder"},
      {{"images.npy", "train.txt", "a.png"}, "npy", "list"},
      {{"train-images-idx3-ubyte", "label.txt", "images/a.png"}, "idx", "list"},
      {{"images.npy", "train/file_list.txt"}, "base64", "npy"},
      {{"train-00000-of-00001", "cat/1.png", "dog/1.png"}, "tfrecord", "folder"},
      {{"train/x.tfrecord", "train/cat/1.png"}, "tfrecord", "folder"},
      {{"train.tfrecord", "train.txt", "a.png"}, "tfrecord", "list"},
      {{"images.npy", "test.tfrecord"}, "tfrecord", "npy"},
      {{"file_list.txt", "a.tfrecord"}, "base64", "tfrecord"},
      {{"file_list.txt", "cat/1.png", "dog/1.png"}, "base64", "folder"},
      {{"part0.csv", "cat/1.png", "dog/1.png"}, "folder", "base64"},
      {{"train/part0.csv", "train/cat/1.png"}, "folder", "base64"},
      {{"part0.csv", "train.txt", "a.png"}, "list", "base64"}};
  const auto content = [](const std::string& file) {
    if (file.ends_with(".txt")) return std::string("a.png 0\n");
    if (file.ends_with(".csv")) return "7\t" + to_base64(bytes_of(image(1))) + "\n";
    const bool shard = file.ends_with(".tfrecord") || file.find("-of-") != std::string::npos;
    return shard ? to_tfrecord(image(1)) : image(1);
  };
  for (const auto& [files, one, other] : cases) {
    const TemporaryFolder folder;
    for (const auto& file : files) put(folder / file, content(file));
    const auto text = thrown<std::invalid_argument>([&] { kind_of(folder.path()); });
    EXPECT_THAT(
        text,
        HasSubstr(formatted(
            "has two data sets, one of the kind {} and one of the kind {}; put each data set "
            "into its own folder, or choose one with --dataset {} or --dataset {}",
            one,
            other,
            one,
            other)))
        << files.front() << ": " << text;
  }
}

TEST(OpenDataset, TakesAFolderWithOtherFilesBesideADataSet) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> sound{
      {{"images.npy", "preview/1.png"}, "npy"},
      {{"images.npy", "@eaDir/1.png", "__pycache__/1.png", "RECYCLER/1.png"}, "npy"},
      {{"train-images-idx3-ubyte", "train.txt"}, "idx"},
      {{"data_batch_1.bin", "train/notes.md", "notes/a.md", "src/b.c"}, "cifar"},
      {{"train.txt", "train/cat/1.png", "test/cat/1.png"}, "list"}};
  for (const auto& [files, kind] : sound) {
    const TemporaryFolder folder;
    for (const auto& file : files)
      put(folder / file, file.ends_with(".txt") ? std::string("a log of a training\n") : image(1));
    EXPECT_EQ(kind_of(folder.path()), kind);
  }
  // A test set's own folder of MNIST's files, and what is said where the training set is missing.
  for (const auto* name : {"t10k-images-idx3-ubyte", "t10k-labels.idx1-ubyte.gz"}) {
    const TemporaryFolder folder;
    put(folder / name, "x");
    EXPECT_EQ(kind_of(folder.path()), "idx");
    const auto text = failure_of([&] { open_dataset({.path = folder.path()}, /*train=*/true); });
    EXPECT_THAT(text,
                HasSubstr("[idx] needs the file " + (folder / "train-images-idx3-ubyte").string()));
  }
}

/// As torchvision's folder of downloads has them.
TEST(OpenDataset, NamesTheFolderOfMnistsFiles) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"MNIST/raw/train-images-idx3-ubyte"}, "MNIST/raw"},
      {{"MNIST/raw/train-images-idx3-ubyte", "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz"},
       "FashionMNIST/raw"},
      {{"raw/train-labels.idx1-ubyte"}, "raw"},
      {{"mnist/t10k-images-idx3-ubyte"}, "mnist"}};
  for (const auto& [files, place] : cases) {
    const TemporaryFolder folder;
    for (const auto& file : files) put(folder / file, "x");
    const auto text = failure_of([&] { open_dataset({.path = folder.path()}, /*train=*/true); });
    EXPECT_TRUE(text.ends_with((folder / place).string() +
                               " has files of MNIST; give this folder with --data"))
        << text;
  }
}

/// In whatever order the folder has them.
TEST(FirstFiles, AreTheFirstOfEachKindByTheirNames) {
  const TemporaryFolder folder;
  for (int i = 40; i-- > 0;) put_file(folder / formatted("note{}.txt", padded(i, 2)), "");
  for (const auto* name : {"w.part7", "w.part30", "z.BIN", "a.bin", "zz"})
    put_file(folder / name, "");
  std::filesystem::create_directory(folder / "aa");
  const auto files = first_files(std::filesystem::directory_iterator(folder.path()));
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.filename());
  std::vector<std::string> expected{"zz", "a.bin", "z.BIN", "w.part30", "w.part7"};
  for (int i = 0; i < 16; ++i) expected.push_back(formatted("note{}.txt", padded(i, 2)));
  EXPECT_EQ(names, expected);
  const auto is_last = [](const std::filesystem::path& file) { return file.filename() == "zz"; };
  EXPECT_TRUE(holds_a_file(folder.path(), is_last));
  std::filesystem::create_directory(folder / "train");
  put_file(folder / "train/x", "");
  const auto is_x = [](const std::filesystem::path& file) { return file.filename() == "x"; };
  EXPECT_TRUE(holds_a_file(folder.path(), is_x));
  std::filesystem::remove(folder / "train/x");
  EXPECT_FALSE(holds_a_file(folder.path(), is_x));
}

/// Many other files, whose order in their folder is by chance.
TEST(OpenDataset, FindsASecondKindBehindManyOtherFiles) {
  const TemporaryFolder folder;
  for (const auto* name : {"a", "b"}) {
    for (int i = 0; i < 1100; ++i) put(folder / name / formatted("{}.json", i), "{}");
    put(folder / name / "z.png", image(1));
  }
  for (int i = 0; i < 40; ++i) put(folder / formatted("{}.json", i), "{}");
  put(folder / "z.csv", "7\t" + to_base64(bytes_of(image(1))) + "\n");
  const auto text = thrown<std::invalid_argument>([&] { kind_of(folder.path()); });
  EXPECT_NE(text.find("one of the kind folder and one of the kind base64"), std::string::npos);
  std::filesystem::rename(folder / "z.csv", folder / "train-00000-of-00001");
  put(folder / "train-00000-of-00001", to_tfrecord(image(1)));
  const auto shards = thrown<std::invalid_argument>([&] { kind_of(folder.path()); });
  EXPECT_NE(shards.find("one of the kind tfrecord and one of the kind folder"), std::string::npos);
}

/// macOS writes accents as letters of their own.
TEST(OpenDataset, SaysThatNamesWhichLookTheSameDiffer) {
  const TemporaryFolder folder;
  put(folder / "train/caf\xC3\xA9/1.png", image(1));
  put(folder / "test/cafe\xCC\x81/1.png", image(1));
  const auto text =
      failure_of([&] { open_dataset({.path = folder.path()}, /*train=*/false, {"caf\xC3\xA9"}); });
  EXPECT_THAT(text, HasSubstr("one is in Unicode NFD and the other in NFC; rename cafe\xCC\x81"));
  put(folder / "train/cafe\xCC\x81/1.png", image(1));
  const DatasetOptions options{.path = folder.path()};
  const auto both = failure_of([&] { open_dataset(options, /*train=*/true); });
  EXPECT_THAT(both, HasSubstr("rename cafe\xCC\x81"));
  EXPECT_EQ(failure_of([&] { parse_class_names("caf\xC3\xA9\ntea\n", "labels.txt"); }), "");
  const auto listed =
      failure_of([&] { parse_class_names("caf\xC3\xA9\ncafe\xCC\x81\n", "labels.txt"); });
  EXPECT_THAT(listed, HasSubstr("labels.txt:2"));
  EXPECT_THAT(listed, HasSubstr("rename cafe\xCC\x81"));
}

/// A folder of a file system without case would hold both.
TEST(OpenDataset, RefusesNamesThatDifferInCaseAloneInAnyScript) {
  const TemporaryFolder folder;
  put(folder / "train/\xC3\x89t\xC3\xA9/1.png", image(1));  // É and é
  put(folder / "train/\xC3\xA9t\xC3\xA9/1.png", image(1));
  const DatasetOptions options{.path = folder.path()};
  const auto text = failure_of([&] { open_dataset(options, /*train=*/true); });
  EXPECT_THAT(text, HasSubstr("differ in more than upper and lower case"));
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

TEST(OpenDataset, TellsTheSameSamplesByTheirBytes) {
  const TemporaryFolder folder;
  for (const auto* part : {"train", "test", "copy"})
    for (const auto* name : {"a/1.png", "b/1.png", "b/2.png"})
      put(folder / part / name, image(std::string(part) == "test" ? 5 : 4));
  const DatasetOptions options{.path = folder.path()};
  const auto train = open_dataset(options, /*train=*/true);
  const auto test = open_dataset(options, /*train=*/false, {"a", "b"});
  EXPECT_EQ(train->digest(), test->digest());  // of the paths
  EXPECT_FALSE(same_samples(*train, *test));
  EXPECT_TRUE(same_samples(*train, *open_dataset({.path = folder / "train"}, true)));
  EXPECT_TRUE(same_samples(*train, *open_dataset({.path = folder / "copy"}, true)));
  put(folder / "copy/b/3.png", image(4));
  EXPECT_FALSE(same_samples(*train, *open_dataset({.path = folder / "copy"}, true)));
}

TEST(OpenDataset, RefusesOptionsWithoutEffect) {
  const TemporaryFolder folder;
  put(folder / "train/a/1.png", image(1));
  const auto text = [&](DatasetOptions options) {
    if (options.kind != "mock") options.path = folder.path();
    return thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  };
  EXPECT_THAT(text({.labels_offset = 1}),
              HasSubstr("labels_offset needs TFRecord or Base64 files, received 1 for data of the "
                        "kind folder"));
  EXPECT_THAT(text({.cache = "x"}), HasSubstr("data_cache needs TFRecord"));
  EXPECT_THAT(text({.stream_cache = 1}), HasSubstr("stream_cache needs data at a URL"));
  EXPECT_THAT(text({.mock_shape = {1, 2, 3}}), HasSubstr("mock_shape needs dataset = mock"));
  EXPECT_THAT(text({.kind = "mock", .mock_shape = {3.5, 2, 3}}),
              HasSubstr("mock_shape needs whole numbers, received 3.5"));
  const auto path = thrown<std::invalid_argument>(
      [&] { open_dataset({.kind = "mock", .path = folder.path()}, true); });
  EXPECT_THAT(path, HasSubstr("data needs a dataset other than mock"));
}

}  // namespace
}  // namespace dimred::data
