#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "data/open.h"
#include "support/formatted.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

/// The file that numpy.save writes.
std::string array(const std::string& type, const std::string& shape, const std::string& data) {
  auto dict = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  dict.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + dict + '\n' + data;
}

std::string images(const std::string& shape, std::size_t bytes) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(7 * i);
  return array("|u1", shape, data);
}

std::string written_labels(const std::vector<std::int64_t>& numbers) {
  std::string data(8 * numbers.size(), '\0');
  std::memcpy(data.data(), numbers.data(), data.size());
  return array("<i8", formatted("({},)", numbers.size()), data);
}

TEST(NpyArrays, AreReadBack) {
  const TemporaryFolder folder;
  put(folder / "train/images.npy", images("(3, 2, 2, 3)", 36));
  put(folder / "train/labels.npy", written_labels({2, 0, 5}));
  put(folder / "val/images.npy", images("(2, 2, 2, 3)", 24));
  put(folder / "val/labels.npy", written_labels({1, 1}));
  EXPECT_EQ(kind_of(folder.path()), "npy");
  const DatasetOptions options{.path = folder.path()};
  const auto train = open_dataset(options, true);
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->shape(), (ImageShape{2, 2, 3}));
  EXPECT_EQ(train->class_names(), numbered_classes(6));
  std::vector<std::uint8_t> scratch;
  for (int i = 0; i < 3; ++i) {
    const auto sample = train->read(i, scratch);
    EXPECT_EQ(sample.label, (std::vector<std::int64_t>{2, 0, 5})[i]);
    ASSERT_EQ(sample.bytes.size(), 12U);
    for (int j = 0; j < 12; ++j) EXPECT_EQ(sample.bytes[j], 7 * (12 * i + j) % 256);
  }
  EXPECT_THROW(train->read(3, scratch), std::invalid_argument);
  EXPECT_EQ(train->origin(1), (folder / "train/images.npy, image 1").string());
  EXPECT_EQ(open_dataset(options, false, train->class_names())->size(), 2);
  EXPECT_EQ(open_dataset({.path = folder.path(), .num_classes = 9}, true)->classes(), 9);
  const auto digest = train->digest();
  put(folder / "train/labels.npy", written_labels({2, 1, 5}));
  EXPECT_NE(open_dataset(options, true)->digest(), digest);
}

TEST(NpyArrays, MayLieInTheFolderItselfAndBeGrey) {
  const TemporaryFolder folder;
  put(folder / "mine/images.npy", images("(2, 2, 3)", 12));
  put(folder / "mine/labels.npy", written_labels({0, 1}));
  put(folder / "other/images.npy", images("(1, 2, 3)", 6));
  put(folder / "other/labels.npy", written_labels({1}));
  const DatasetOptions options{.path = folder / "mine", .test_path = folder / "other"};
  const auto train = open_dataset(options, true);
  EXPECT_EQ(train->shape(), (ImageShape{1, 2, 3}));
  EXPECT_TRUE(train->description().starts_with(
      formatted("npy {}, 2 images of 2 x 3, xxh3 ", (folder / "mine/images.npy").string())));
  EXPECT_EQ(label_of(*open_dataset(options, false, train->class_names()), 0), 1);
  EXPECT_EQ(open_test_set_if_any({.path = folder / "mine"}, train->class_names()), nullptr);
}

TEST(NpyArrays, NameLabelsThatNoImageHas) {
  const TemporaryFolder folder;
  const auto notes = [&](const std::vector<std::int64_t>& labels, bool train = true) {
    const auto count = std::ssize(labels);
    put(folder / "images.npy", images(formatted("({}, 2, 3)", count), 6 * count));
    put(folder / "labels.npy", written_labels(labels));
    const auto names = train ? std::vector<std::string>() : numbered_classes(10);
    return open_dataset({.path = folder.path(), .test_path = folder.path()}, train, names)->notes();
  };
  const auto file = (folder / "labels.npy").string();
  EXPECT_THAT(
      notes({0, 2, 4}),
      testing::ElementsAre(file + ": no image has the label 1, 3; the network has an output "
                                  "for each label from 0 to 4"));
  EXPECT_THAT(notes({0, 9}),
              testing::ElementsAre(testing::HasSubstr("the label 1, 2, 3, ... (8 in all);")));
  EXPECT_TRUE(notes({1, 0, 2}).empty());
  EXPECT_TRUE(notes({0, 9}, /*train=*/false).empty());
}

TEST(NpyArrays, AreRefusedInOneLineThatNamesTheFile) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& pictures, const std::string& numbers) {
    put(folder / "images.npy", pictures);
    put(folder / "labels.npy", numbers);
    auto said = thrown<std::runtime_error>([&] { open_dataset({.path = folder.path()}, true); });
    const auto name = said.find(folder.path().string());
    if (name != std::string::npos) said.replace(name, folder.path().string().size(), "F");
    return said;
  };
  const auto good = images("(2, 2, 3)", 12), two = written_labels({0, 1});
  EXPECT_EQ(text(good, two), "no exception");
  const std::string shapes =
      "[npy] F: needs images [n, height, width] or [n, channels, height, width] with 1 to 4 "
      "channels, and labels [n], received ";
  EXPECT_EQ(text(images("(2, 8, 8, 3)", 384), two), shapes + "(2, 8, 8, 3) and (2,)");
  EXPECT_EQ(text(images("(2, 6)", 12), two), shapes + "(2, 6) and (2,)");
  EXPECT_EQ(text(images("(0, 2, 3)", 0), written_labels({})), shapes + "(0, 2, 3) and (0,)");
  EXPECT_EQ(text(good, array("<i8", "(2, 1)", std::string(16, '\0'))),
            shapes + "(2, 2, 3) and (2, 1)");
  EXPECT_EQ(text(good, written_labels({0, 1, 1})), shapes + "(2, 2, 3) and (3,)");
  EXPECT_EQ(text(good, written_labels({0, -1})),
            "[npy] F/labels.npy: needs labels >= 0 and labels < 1, received -1 at index 1");
  EXPECT_EQ(text(good, written_labels({0, INT64_MAX})),
            "[npy] F/labels.npy: needs labels >= 0 and labels < 1000000, received "
            "9223372036854775807 at index 1");
  EXPECT_EQ(text(good, array("<i4", "(2,)", std::string(8, '\0'))),
            "[npy] 'F/labels.npy' needs dtype '<i8', received '<i4'");
  EXPECT_EQ(text(array("<f4", "(2, 2, 3)", std::string(48, '\0')), two),
            "[npy] 'F/images.npy' needs dtype '|u1', received '<f4'");
  auto fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_EQ(text(fortran, two),
            "[npy] F/images.npy: needs an array in C order, received one in Fortran order; convert "
            "the array with numpy.ascontiguousarray");
  EXPECT_EQ(text(good.substr(0, good.size() - 1), two),
            "[npy] 'F/images.npy' needs 12 bytes of data for shape (2, 2, 3), received 11");
  EXPECT_EQ(text(good, two), "no exception");
  fs::remove(folder / "labels.npy");
  EXPECT_EQ(thrown<std::invalid_argument>([&] { open_dataset({.path = folder.path()}, true); }),
            formatted("[file] '{}' does not exist", (folder / "labels.npy").string()));
}

}  // namespace
}  // namespace dimred::data
