#include "data/open.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

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
  EXPECT_NE(missing.find("needs the training set's 2 classes, received 1; only one of them has b"),
            std::string::npos)
      << missing;
  put(folder / "val/b/1.png", image(4));
  EXPECT_EQ(open_dataset(options, false, train->class_names())->size(), 2);
  options.num_classes = 1;
  const auto classes = thrown<std::invalid_argument>([&] { open_dataset(options, true); });
  EXPECT_NE(classes.find("num_classes needs at least what the training set has (2"),
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
  EXPECT_NE(samples.find("num_samples needs what the training set has"), std::string::npos);
  options = {.path = folder / "train"};
  const auto test = thrown<std::invalid_argument>([&] { open_dataset(options, false); });
  EXPECT_NE(test.find("test_data can name it"), std::string::npos) << test;
  options.test_path = folder / "val";
  EXPECT_EQ(shade_of(*open_dataset(options, false), 0), 3);
  EXPECT_THROW(kind_of(folder / "nowhere"), std::invalid_argument);
  options = {.kind = "mock", .num_classes = 5, .mock_shape = {1, 8, 8}};
  EXPECT_EQ(open_dataset(options, true)->shape(), (ImageShape{1, 8, 8}));
  options.num_samples = 7;
  EXPECT_EQ(open_dataset(options, true)->size(), 7);
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
