#include "data/image_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/cifar.h"
#include "data/decode.h"
#include "data/encode.h"
#include "data/mock.h"
#include "data/open.h"
#include "data/resident.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

std::string image(int shade, std::int64_t height = 4, std::int64_t width = 5, bool png = true) {
  const ImageShape shape{3, height, width};
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.size()),
                                         static_cast<std::uint8_t>(shade));
  return png ? to_png(pixels, shape) : to_jpeg(pixels, shape, 95);
}

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  put_file(path, text);
}

int shade_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  const auto sample = dataset.read(index, scratch);
  return decoded(sample, 3).pixels.front();
}

std::int64_t label_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> scratch;
  return dataset.read(index, scratch).label;
}

TEST(ImageFolder, ReadsClassesByNameAndFilesByPath) {
  const TemporaryFolder folder;
  put(folder / "b/2.png", image(20));
  put(folder / "b/1.PNG", image(10));
  put(folder / "b/deep/3.jpeg", image(30, 4, 5, false));
  put(folder / "a/9.jpg", image(90, 4, 5, false));
  put(folder / "a/.hidden.png", "x");
  put(folder / "a/notes.txt", "x");
  put(folder / ".dimred/cache.bin", "x");
  const auto dataset = open_image_folder(folder.path());
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(dataset->size(), 4);
  const std::vector<int> shades{90, 10, 20, 30};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(label_of(*dataset, i), i > 0);
    EXPECT_NEAR(shade_of(*dataset, i), shades[static_cast<std::size_t>(i)], 1);
  }
  EXPECT_EQ(dataset->origin(0), (folder / "a/9.jpg").string());
  EXPECT_NE(dataset->description().find("4 images, 2 classes, 2 other files"), std::string::npos)
      << dataset->description();
  EXPECT_TRUE(dataset->notes().empty());
}

TEST(ImageFolder, ReadsAFileAsWhatItHoldsAndSaysSo) {
  const TemporaryFolder folder;
  put(folder / "a/1.jpg", image(50));
  put(folder / "a/2.png", image(60));
  const auto dataset = open_image_folder(folder.path());
  EXPECT_EQ(shade_of(*dataset, 0), 50);
  EXPECT_EQ(shade_of(*dataset, 0), 50);
  EXPECT_EQ(shade_of(*dataset, 1), 60);
  ASSERT_EQ(dataset->notes().size(), 1U);
  EXPECT_TRUE(dataset->notes()[0].starts_with("1 files are not what their names say"));
}

TEST(ImageFolder, RefusesWhatItCannotMean) {
  const TemporaryFolder folder;
  const auto text = [&] {
    return thrown<std::invalid_argument>([&] { open_image_folder(folder.path()); });
  };
  EXPECT_NE(text().find("needs a folder for each class"), std::string::npos);
  put(folder / "Cat/1.png", image(1));
  fs::create_directories(folder / "dog");
  EXPECT_NE(text().find("received none in " + (folder / "dog").string()), std::string::npos);
  put(folder / "dog/1.png", image(1));
  put(folder / "cat/1.png", image(1));
  EXPECT_NE(text().find("differ by more than case, received Cat and cat"), std::string::npos);
  fs::remove_all(folder / "cat");
  EXPECT_EQ(open_image_folder(folder.path(), {"dog", "Cat"})->class_names().front(), "dog");
  const auto other = thrown<std::invalid_argument>([&] {
    open_image_folder(folder.path(), {"dog", "Cat", "cow"});
  });
  EXPECT_NE(other.find("only one of them has cow"), std::string::npos) << other;
  EXPECT_THROW(open_image_folder(folder / "nowhere"), std::invalid_argument);
  put(folder / "\xFF\xFE/1.png", image(1));
  const auto bytes = thrown<std::runtime_error>([&] { open_image_folder(folder.path()); });
  EXPECT_NE(bytes.find("needs class names in UTF-8, received \\xFF\\xFE"), std::string::npos);
}

TEST(ImageFolder, NamesTheFileThatItCannotRead) {
  const TemporaryFolder folder;
  put(folder / "a/1.png", "");
  put(folder / "a/2.png", "GIF89a, say");
  put(folder / "a/3\xFF.png", image(7));
  const auto dataset = open_image_folder(folder.path());
  const auto read = [&](std::int64_t index) {
    return thrown<std::runtime_error>([&] { shade_of(*dataset, index); });
  };
  EXPECT_NE(read(0).find("1.png: the file is empty"), std::string::npos);
  EXPECT_NE(read(1).find("2.png: needs a JPEG or PNG file"), std::string::npos);
  EXPECT_EQ(shade_of(*dataset, 2), 7);
  EXPECT_TRUE(dataset->origin(2).ends_with("3\\xFF.png"));
  fs::remove(folder / "a/1.png");
  EXPECT_NE(read(0).find("1.png: No such file"), std::string::npos);
}

TEST(ImageList, ReadsPathsWithBlanksAndLabels) {
  const TemporaryFolder folder;
  put(folder / "images/one two.png", image(1));
  put(folder / "images/3.png", image(3));
  put(folder / "label.txt", "one two.png 2\r\n\n  3.png\t0 \n");
  const auto dataset = open_image_list(folder / "label.txt");
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->class_names(), numbered_classes(3));
  EXPECT_EQ(label_of(*dataset, 0), 2);
  EXPECT_EQ(shade_of(*dataset, 1), 3);
  put(folder / "labels.txt", "0: cow\n1: cat\n2: dog\n");
  EXPECT_EQ(open_image_list(folder / "label.txt")->class_names()[2], "dog");
  put(folder / "words.txt", "3.png dog\none two.png cat\n");
  const auto words = open_image_list(folder / "words.txt");
  EXPECT_EQ(words->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(label_of(*words, 0), 1);
}

TEST(ImageList, NamesTheLineThatIsBad) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content, const std::vector<std::string>& names = {}) {
    put(folder / "label.txt", content);
    return thrown<std::runtime_error>([&] { open_image_list(folder / "label.txt", names); });
  };
  EXPECT_NE(text("a.png 1\nb.png\n").find("label.txt:2: needs \"path label\", received b.png"),
            std::string::npos);
  EXPECT_NE(text("a.png 1\nb.png 7\n", {"x", "y"})
                .find("label.txt:2: needs one of the 2 classes, received 7"),
            std::string::npos);
  EXPECT_NE(text("\n\n").find("needs a line for each image"), std::string::npos);
  EXPECT_NE(text("a.png 1000000\n").find("needs labels < 1000000"), std::string::npos);
}

TEST(ImagePattern, TakesTheFoldersNameAsTheClass) {
  const TemporaryFolder folder;
  put(folder / "x/a/1.png", image(1));
  put(folder / "x/b/1.png", image(2));
  put(folder / "y/b/1.png", image(3));
  const auto dataset = open_image_pattern((folder / "*/*/*.png").string());
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(label_of(*dataset, 2), 1);
  EXPECT_THROW(open_image_pattern((folder / "z/*.png").string()), std::invalid_argument);
}

TEST(Cifar, ReadsRecordsNamesAndPlaces) {
  const TemporaryFolder folder;
  const auto record = [](int label, int shade) {
    return std::string(1, static_cast<char>(label)) + std::string(3072, static_cast<char>(shade));
  };
  put(folder / "data_batch_1.bin", record(3, 30) + record(9, 90));
  put(folder / "data_batch_2.bin", record(0, 7));
  put(folder / "test_batch.bin", record(1, 1));
  EXPECT_TRUE(is_cifar(folder.path()));
  const auto train = open_cifar(folder.path(), true);
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(label_of(*train, 1), 9);
  EXPECT_EQ(shade_of(*train, 2), 7);
  EXPECT_TRUE(train->origin(1).ends_with("data_batch_1.bin, offset 3073"));
  EXPECT_TRUE(train->origin(2).ends_with("data_batch_2.bin, offset 0"));
  EXPECT_EQ(train->class_names(), numbered_classes(10));
  EXPECT_EQ(open_cifar(folder.path(), false)->size(), 1);
  put(folder / "data_batch_2.bin", record(10, 7));
  const auto label = thrown<std::runtime_error>([&] { open_cifar(folder.path(), true); });
  EXPECT_NE(label.find("data_batch_2.bin, offset 0: needs a label < 10, received 10"),
            std::string::npos);
  put(folder / "data_batch_2.bin", record(1, 7) + "x");
  const auto size = thrown<std::runtime_error>([&] { open_cifar(folder.path(), true); });
  EXPECT_NE(size.find("needs whole records of 3073 bytes"), std::string::npos);
  const TemporaryFolder hundred;
  put(hundred / "train.bin", std::string(1, 5) + record(99, 1));
  EXPECT_EQ(label_of(*open_cifar(hundred.path(), true), 0), 99);
}

TEST(Mock, HasAnyShapeAndClasses) {
  const auto mock = open_mock(1'000'000, {3, 17, 9}, 1000);
  std::vector<std::uint8_t> scratch;
  EXPECT_EQ(mock->read(999'999, scratch).bytes.size(), 459U);
  EXPECT_EQ(mock->read(999'999, scratch).label, 999);
  EXPECT_EQ(mock->classes(), 1000);
  EXPECT_THROW(open_mock(1, {0, 1, 1}, 1), std::invalid_argument);
  EXPECT_THROW(mock->read(1'000'000, scratch), std::invalid_argument);
}

TEST(Resident, KeepsImagesOfOneSize) {
  const TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) put(folder / ("a/" + std::to_string(i) + ".png"), image(i));
  const std::shared_ptr<const Dataset> files = open_image_folder(folder.path());
  const auto kept = resident(files, 9 * 60, 3);
  EXPECT_EQ(kept->shape(), (ImageShape{3, 4, 5}));
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(shade_of(*kept, i), i);
  EXPECT_NE(kept->description(), files->description());
  EXPECT_EQ(resident(files, 9 * 60 - 1, 3), files);           // too little memory
  EXPECT_EQ(resident(files, 9 * 60, 3, 0, false, 4), files);  // too long a side
  put(folder / "a/5.png", image(5, 5, 4));
  EXPECT_EQ(resident(files, 9 * 60, 3), files);
  put(folder / "a/5.png", "rubbish");
  const auto text = thrown<std::runtime_error>([&] { resident(files, 9 * 60, 3); });
  EXPECT_NE(text.find("5.png: needs a JPEG or PNG file"), std::string::npos) << text;
  const auto skipped = resident(files, 9 * 60, 3, 0, /*skip_bad=*/true);
  EXPECT_EQ(shade_of(*skipped, 5), 6);
  EXPECT_EQ(skipped->notes().size(), 1U);
}

TEST(OpenDataset, FindsTheKindAndTheParts) {
  const TemporaryFolder folder;
  put(folder / "train/b/1.png", image(1));
  put(folder / "train/a/1.png", image(2));
  put(folder / "val/a/1.png", image(3));
  EXPECT_EQ(kind_of(folder.path()), DatasetKind::folder);
  DatasetOptions options{.path = folder.path()};
  const auto train = open_dataset(options, true);
  const auto missing =
      thrown<std::invalid_argument>([&] { open_dataset(options, false, train->class_names()); });
  EXPECT_NE(missing.find("needs the training set's 2 classes, received 1; only one of them has b"),
            std::string::npos)
      << missing;
  put(folder / "val/b/1.png", image(4));
  EXPECT_EQ(open_dataset(options, false, train->class_names())->size(), 2);
  options.num_classes = 3;
  const auto classes = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_NE(classes.find("num_classes needs what the training set has (2"), std::string::npos);
  options = {.path = folder / "train"};
  const auto test = thrown<std::invalid_argument>([&] { open_dataset(options, false); });
  EXPECT_NE(test.find("test_data can name it"), std::string::npos) << test;
  options.test_path = folder / "val";
  EXPECT_EQ(shade_of(*open_dataset(options, false), 0), 3);
  EXPECT_THROW(kind_of(folder / "nowhere"), std::invalid_argument);
  options = {.kind = DatasetKind::mock, .num_classes = 5, .mock_shape = {1, 8, 8}};
  EXPECT_EQ(open_dataset(options, true)->shape(), (ImageShape{1, 8, 8}));
}

}  // namespace
}  // namespace dimred::data
