#include "data/image_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/open.h"
#include "tests/data/shade_files.h"
#include "tests/tools/owner_alone.h"

namespace dimred::data {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Dataset> open_cifar(const std::filesystem::path& folder, bool train) {
  return open_dataset({.kind = "cifar", .path = folder}, train);
}

TEST(ImageFolder, ReadsClassesByNameAndFilesByPath) {
  const TemporaryFolder folder;
  put(folder / "b/2.png", image(20));
  put(folder / "b/1.PNG", image(10));
  put(folder / "b/deep/3.jpeg", image(30, 4, 5, false));
  put(folder / "a/9.jpg", image(90, 4, 5, false));
  put(folder / "a/.hidden.png", "x");
  put(folder / "a/notes.txt", "x");
  put(folder / "stray.png", image(7));
  put(folder / ".dimred/cache.bin", "x");
  put(folder / "__MACOSX/a/._9.jpg", "x");
  const auto dataset = open_image_folder(folder.path());
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(dataset->size(), 4);
  const std::vector<int> shades{90, 10, 20, 30};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(label_of(*dataset, i), i > 0);
    EXPECT_NEAR(shade_of(*dataset, i), shades[static_cast<std::size_t>(i)], 1);
  }
  EXPECT_EQ(dataset->origin(0), (folder / "a/9.jpg").string());
  EXPECT_THAT(dataset->description(), HasSubstr("4 images, 2 classes, 3 other files"))
      << dataset->description();
  EXPECT_EQ(dataset->notes(),
            std::vector<std::string>{"dimred skipped folders of other programs: __MACOSX"});
}

TEST(ImageFolder, LeavesOutAndNamesFoldersOfOtherPrograms) {
  const TemporaryFolder folder;
  for (const auto* name : {"a",
                           "#snapshot",
                           "$Recycle.Bin",
                           "@SynoResource",
                           "RECYCLER",
                           "System Volume Information",
                           "Thumbs.db",
                           "__pycache__",
                           "_gsdata_",
                           "_vti_cnf",
                           "~snapshot"})
    put(folder / name / "1.png", image(1));
  const auto dataset = open_image_folder(folder.path());
  EXPECT_EQ(dataset->class_names(), std::vector<std::string>{"a"});
  EXPECT_EQ(dataset->notes(),
            std::vector<std::string>{
                "dimred skipped folders of other programs: #snapshot, $Recycle.Bin, @SynoResource, "
                "RECYCLER, System Volume Information, Thumbs.db, __pycache__, _gsdata_, _vti_cnf, "
                "~snapshot"});
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
  EXPECT_TRUE(dataset->notes()[0].starts_with("1 files have another format than their names say"));
}

TEST(ImageFolder, RefusesWhatItCannotMean) {
  const TemporaryFolder folder;
  const auto text = [&] {
    return thrown<std::invalid_argument>([&] { open_image_folder(folder.path()); });
  };
  EXPECT_THAT(text(), HasSubstr("needs a subfolder for each class"));
  put(folder / "Cat/1.png", image(1));
  fs::create_directories(folder / "dog");
  EXPECT_THAT(text(), HasSubstr("received none in " + (folder / "dog").string()));
  put(folder / "dog/1.png", image(1));
  put(folder / "cat/1.png", image(1));
  EXPECT_THAT(text(), HasSubstr("differ in more than upper and lower case, received Cat and cat"));
  fs::remove_all(folder / "cat");
  EXPECT_EQ(open_image_folder(folder.path(), {"dog", "Cat"})->class_names().front(), "dog");
  const auto other = thrown<std::invalid_argument>([&] {
    open_image_folder(folder.path(), {"dog", "Cat", "cow"});
  });
  EXPECT_THAT(other, HasSubstr("only one of the two sets has cow"));
  EXPECT_THROW(open_image_folder(folder / "nowhere"), std::invalid_argument);
  put(folder / "\xFF\xFE/1.png", image(1));
  const auto bytes = thrown<std::runtime_error>([&] { open_image_folder(folder.path()); });
  EXPECT_THAT(bytes, HasSubstr("needs class names in UTF-8, received \\xFF\\xFE"));
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
  EXPECT_THAT(read(0), HasSubstr("1.png: the file is empty"));
  EXPECT_THAT(read(1), HasSubstr("2.png: needs a JPEG or PNG file"));
  EXPECT_EQ(shade_of(*dataset, 2), 7);
  EXPECT_TRUE(dataset->origin(2).ends_with("3\\xFF.png"));
  fs::remove(folder / "a/1.png");
  EXPECT_THAT(read(0), HasSubstr("1.png: No such file"));
}

TEST(ImageFolder, NamesAFolderThatItCannotRead) {
  const TemporaryFolder folder;
  put(folder / "a/1.png", image(1));
  put(folder / "b/deep/1.png", image(2));
  const auto text = [&](const std::string& closed) {
    EXPECT_EQ(::chmod((folder / closed).c_str(), 0), 0);
    const auto said = [&] {
      const OwnerAlone owner;
      return thrown<std::runtime_error>([&] { open_image_folder(folder.path()); });
    }();
    EXPECT_EQ(::chmod((folder / closed).c_str(), 0755), 0);
    return said;
  };
  const auto error_of = [](const fs::path& path) {
    return "[image_folder] cannot read " + path.string() + ": Permission denied";
  };
  EXPECT_EQ(text("b/deep"), error_of(folder / "b/deep"));
  EXPECT_EQ(text("b"), error_of(folder / "b"));
  EXPECT_EQ(text(""), error_of(folder.path()));
}

TEST(ImageFolder, FollowsLinksToFoldersUnlessTheyLeadBack) {
  const TemporaryFolder folder;
  put(folder / "elsewhere/1.png", image(8));
  put(folder / "data/a/2.png", image(9));
  fs::create_directory_symlink(folder / "elsewhere", folder / "data/a/link");
  EXPECT_EQ(open_image_folder(folder / "data")->size(), 2);
  fs::create_directory_symlink("..", folder / "data/a/loop");
  const auto loop = thrown<std::runtime_error>([&] { open_image_folder(folder / "data"); });
  EXPECT_THAT(loop, HasSubstr("a/loop: the link leads to"));
}

TEST(ImageFolder, NamesAFileOnOneLine) {
  const TemporaryFolder folder;
  put(folder / "a/one\ntwo\x1B[2J.png", "rubbish");
  const auto dataset = open_image_folder(folder.path());
  EXPECT_TRUE(dataset->origin(0).ends_with("a/one\\x0Atwo\\x1B[2J.png")) << dataset->origin(0);
  const auto text = thrown<std::runtime_error>([&] { shade_of(*dataset, 0); });
  EXPECT_EQ(text.find_first_of("\n\x1B"), std::string::npos) << text;
  put(folder / "new\nline/1.png", image(1));
  const auto name = thrown<std::runtime_error>([&] { open_image_folder(folder.path()); });
  EXPECT_THAT(name, HasSubstr("without control characters, received new\\nline"));
}

TEST(ImageFolder, DoesNotWaitForAPipe) {
  const TemporaryFolder folder;
  put(folder / "a/1.png", image(1));
  ASSERT_EQ(::mkfifo((folder / "a/2.jpg").c_str(), 0600), 0);
  const auto dataset = open_image_folder(folder.path());
  const auto text = thrown<std::runtime_error>([&] { shade_of(*dataset, 1); });
  EXPECT_THAT(text, HasSubstr("2.jpg: needs a regular file"));
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

TEST(Cifar, PrintsItsFolderInUtf8) {
  const TemporaryFolder folder;
  put(folder / "a\xFF/test.bin", std::string(3074, '\1'));
  put(folder / "a\xFF/train.bin", std::string(3073, '\1'));
  EXPECT_THAT(thrown<std::runtime_error>([&] { open_cifar(folder / "a\xFF", true); }),
              HasSubstr("a\\xFF/train.bin: needs a file size that is a multiple"));
  const auto test = open_cifar(folder / "a\xFF", false);
  EXPECT_THAT(test->description(), HasSubstr("a\\xFF,"));
  EXPECT_THAT(test->origin(0), HasSubstr("a\\xFF/test.bin"));
}

TEST(Cifar, ReadsRecordsNamesAndPlaces) {
  const TemporaryFolder folder;
  const auto record = [](int label, int shade) {
    return std::string(1, static_cast<char>(label)) + std::string(3072, static_cast<char>(shade));
  };
  put(folder / "data_batch_1.bin", record(3, 30) + record(9, 90));
  put(folder / "data_batch_2.bin", record(0, 7));
  put(folder / "data_batch_4.bin", record(0, 7));
  put(folder / "test_batch.bin", record(1, 1));
  EXPECT_EQ(kind_of(folder.path()), "cifar");
  const auto missing = thrown<std::invalid_argument>([&] { open_cifar(folder.path(), true); });
  EXPECT_TRUE(missing.ends_with("received a folder without data_batch_3.bin, data_batch_5.bin"))
      << missing;
  put(folder / "data_batch_3.bin", record(0, 7));
  put(folder / "data_batch_5.bin", record(0, 7));
  const auto train = open_cifar(folder.path(), true);
  ASSERT_EQ(train->size(), 6);
  EXPECT_EQ(train->shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(label_of(*train, 1), 9);
  EXPECT_EQ(shade_of(*train, 2), 7);
  EXPECT_TRUE(train->origin(1).ends_with("data_batch_1.bin, offset 3073"));
  EXPECT_TRUE(train->origin(2).ends_with("data_batch_2.bin, offset 0"));
  EXPECT_EQ(train->class_names(), numbered_classes(10));
  EXPECT_EQ(open_cifar(folder.path(), false)->size(), 1);
  fs::rename(folder / "test_batch.bin", folder / "away");
  EXPECT_EQ(open_test_set_if_any({.path = folder.path()}, numbered_classes(10)), nullptr);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { open_cifar(folder.path(), false); }),
              HasSubstr("needs test_batch.bin or test.bin for the test set"));
  fs::rename(folder / "away", folder / "test_batch.bin");
  put(folder / "data_batch_2.bin", record(10, 7));
  const auto label = thrown<std::runtime_error>([&] { open_cifar(folder.path(), true); });
  EXPECT_THAT(label, HasSubstr("data_batch_2.bin, offset 0: needs a label < 10, received 10"));
  put(folder / "data_batch_2.bin", record(1, 7) + "x");
  const auto size = thrown<std::runtime_error>([&] { open_cifar(folder.path(), true); });
  EXPECT_THAT(size, HasSubstr("needs a file size that is a multiple of 3073 bytes (one record)"));
  const TemporaryFolder hundred;
  put(hundred / "train.bin", std::string(1, 5) + record(99, 1));
  EXPECT_EQ(label_of(*open_cifar(hundred.path(), true), 0), 99);
}

/// As torchvision's folder of downloads has them.
TEST(Cifar, RefusesTwoDataSetsInOneFolder) {
  const auto ten = std::string("data_batch_1.bin"), hundred = std::string("train.bin");
  const std::vector<std::pair<std::string, std::string>> places{
      {ten, hundred},
      {"cifar-10-batches-bin/" + ten, "cifar-100-binary/" + hundred},
      {ten, "cifar-100-binary/" + hundred},
      {ten, "cifar-10-batches-bin/" + ten}};
  for (const auto& [one, other] : places) {
    const TemporaryFolder folder;
    put(folder / one, std::string(3073, '\1'));
    put(folder / other, std::string(3074, '\1'));
    EXPECT_EQ(kind_of(folder.path()), "cifar");
    const auto text = thrown<std::invalid_argument>([&] { open_cifar(folder.path(), true); });
    EXPECT_THAT(text, HasSubstr("put each data set into its own folder"));
  }
}

TEST(ImagePattern, LeavesOutTheFoldersThatADiskAdds) {
  const TemporaryFolder folder;
  put(folder / "a/1.png", image(1));
  put(folder / "@eaDir/1.png", image(2));
  const auto dataset = open_image_pattern((folder / "*/*.png").string());
  EXPECT_EQ(dataset->class_names(), std::vector<std::string>{"a"});
  EXPECT_EQ(open_image_pattern((folder / "@eaDir/*.png").string())->size(), 1);
}

TEST(Mock, HasAnyShapeAndClasses) {
  DatasetOptions options{.kind = "mock", .num_classes = 1000, .mock_shape = {3, 17, 9}};
  const auto mock = open_dataset(options, true);
  std::vector<std::uint8_t> scratch;
  EXPECT_EQ(mock->read(49'999, scratch).bytes.size(), 459U);
  EXPECT_EQ(mock->read(49'999, scratch).label, 999);
  EXPECT_EQ(mock->classes(), 1000);
  EXPECT_THROW(mock->read(50'000, scratch), std::invalid_argument);
  options.mock_shape = {0, 1, 1};
  EXPECT_THROW(open_dataset(options, true), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
