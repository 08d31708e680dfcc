#include "data/idx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>

#include "data/open.h"
#include "tests/data/idx_files.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

fs::path images_of(const TemporaryFolder& folder) {
  return folder.path() / "train-images-idx3-ubyte";
}
fs::path label_file(const TemporaryFolder& folder) {
  return folder.path() / "train-labels-idx1-ubyte";
}
fs::path gz(const fs::path& path) { return path.string() + ".gz"; }

// The text of the std::runtime_error that opening must end with.
std::string damage(const TemporaryFolder& folder) {
  return thrown<std::runtime_error>([&] { open_idx(folder.path(), true); });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
}

std::vector<int> label_counts(const Dataset& dataset) {
  std::vector<int> counts(10, 0);
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    ++counts.at(static_cast<std::size_t>(dataset.read(i, scratch).label));
  }
  return counts;
}

std::vector<std::int64_t> first_labels(const Dataset& dataset) {
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> scratch;
  for (std::int64_t i = 0; i < 10; ++i) labels.push_back(dataset.read(i, scratch).label);
  return labels;
}

// Needs the Debian package dataset-fashion-mnist, as the README command does: absent is a failure.
// Oracle: the data set's publication (70,000 images of 28 x 28, equal classes) and its first
// labels.
TEST(Idx, ReadsTheRealFashionMnist) {
  ASSERT_TRUE(fs::is_directory(default_fashion_mnist_folder()))
      << "install the Debian package dataset-fashion-mnist";
  const auto train = open_idx(default_fashion_mnist_folder(), true);
  const auto test = open_idx(default_fashion_mnist_folder(), false);
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(train->shape(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(label_counts(*train), std::vector<int>(10, 6000));
  EXPECT_EQ(label_counts(*test), std::vector<int>(10, 1000));
  EXPECT_EQ(first_labels(*train), (std::vector<std::int64_t>{9, 0, 0, 3, 0, 2, 7, 2, 5, 5}));
  EXPECT_EQ(first_labels(*test), (std::vector<std::int64_t>{9, 2, 1, 1, 6, 1, 4, 6, 5, 7}));
}

TEST(Idx, ReadsPlainAndGzAlike) {
  const TemporaryFolder plain, packed;
  write_file(images_of(plain), little_images());
  write_file(label_file(plain), little_labels());
  write_gz(gz(images_of(packed)), little_images());
  write_gz(gz(label_file(packed)), little_labels());
  const std::array datasets = {open_idx(plain.path(), true), open_idx(packed.path(), true)};
  const auto pixels = little_pixels();
  std::vector<std::uint8_t> scratch;
  for (const auto& dataset : datasets) {
    ASSERT_EQ(dataset->size(), 5);
    EXPECT_EQ(dataset->shape(), (ImageShape{1, 2, 3}));
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto sample = dataset->read(i, scratch);
      EXPECT_EQ(sample.label, (std::array{3, 1, 4, 1, 5})[static_cast<std::size_t>(i)]);
      ASSERT_EQ(sample.bytes.size(), 6U);
      EXPECT_TRUE(std::equal(sample.bytes.begin(), sample.bytes.end(), pixels.begin() + 6 * i));
    }
  }
  // The digest is of the content, so it does not see the packing.
  const auto digests = [](const Dataset& dataset) {
    const auto text = dataset.description();
    return text.substr(text.find("xxh3"));
  };
  EXPECT_EQ(digests(*datasets[0]), digests(*datasets[1]));
}

TEST(Idx, DescriptionSeesEveryPixelAndLabel) {
  const TemporaryFolder folder;
  const auto description = [&](const Content& images, const Content& labels) {
    write_file(images_of(folder), images);
    write_file(label_file(folder), labels);
    return open_idx(folder.path(), true)->description();
  };
  const auto sound = description(little_images(), little_labels());
  EXPECT_EQ(sound.find('\n'), std::string::npos);
  expect_contains(sound, images_of(folder).string() + ", 5 images of 2 x 3, ");
  auto images = little_images();
  images.back() ^= 1;
  EXPECT_NE(description(images, little_labels()), sound);
  EXPECT_NE(description(little_images(), idx_bytes({5}, {3, 1, 4, 1, 6})), sound);
}

TEST(Idx, MissingFileNamesItAndTheDebianPackage) {
  const TemporaryFolder folder;
  write_file(images_of(folder), little_images());
  const auto refusal = [](const fs::path& path) {
    return thrown<std::invalid_argument>([&] { open_idx(path, true); });
  };
  const auto text = refusal(folder.path());
  expect_contains(text, label_file(folder).string());
  expect_contains(text, "a folder without this file");
  expect_contains(text, "dataset-fashion-mnist");
  expect_contains(refusal(folder.path() / "nowhere"), "no such folder");
}

TEST(Idx, NeedsNoTestSetButAllOfOne) {
  const TemporaryFolder folder;
  write_file(images_of(folder), little_images());
  write_file(label_file(folder), little_labels());
  const DatasetOptions options{.path = folder.path()};
  const auto names = open_dataset(options, /*train=*/true)->class_names();
  EXPECT_EQ(open_test_set_if_any(options, names), nullptr);
  expect_contains(
      thrown<std::invalid_argument>([&] { open_dataset(options, /*train=*/false, names); }),
      "which has no test set; give a test set with --test_data");
  write_file(folder / "t10k-labels-idx1-ubyte", little_labels());
  expect_contains(thrown<std::invalid_argument>([&] { open_test_set_if_any(options, names); }),
                  "t10k-images-idx3-ubyte");
}

/// As EMNIST's letters, whose files do not say how many classes there are.
TEST(Idx, HasTheClassesItIsTold) {
  const TemporaryFolder folder;
  write_file(images_of(folder), little_images());
  write_file(label_file(folder), idx_bytes({5}, {3, 26, 4, 1, 5}));
  EXPECT_THROW(open_idx(folder.path(), true), std::runtime_error);
  EXPECT_EQ(open_idx(folder.path(), true, 27)->classes(), 27);
}

TEST(Idx, ReadRefusesAnIndexOutside) {
  const TemporaryFolder folder;
  write_file(images_of(folder), little_images());
  write_file(label_file(folder), little_labels());
  const auto dataset = open_idx(folder.path(), true);
  std::vector<std::uint8_t> scratch;
  EXPECT_THROW(dataset->read(-1, scratch), std::invalid_argument);
  EXPECT_THROW(dataset->read(5, scratch), std::invalid_argument);
}

class DamagedIdx : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(images_of(folder_), little_images());
    write_file(label_file(folder_), little_labels());
  }
  // The images as gz, passed through `spoil`; the plain file is removed.
  void pack_images(const Content& content, const std::function<void(Content&)>& spoil) {
    fs::remove(images_of(folder_));
    write_gz(gz(images_of(folder_)), content);
    auto packed = read_file(gz(images_of(folder_)));
    spoil(packed);
    write_file(gz(images_of(folder_)), packed);
  }
  TemporaryFolder folder_;
};

TEST_F(DamagedIdx, TruncatedPlainFileIsRefusedAtEveryLength) {
  const auto whole = little_images();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(images_of(folder_),
               Content(whole.begin(), whole.begin() + static_cast<long>(length)));
    const auto text = damage(folder_);
    expect_contains(text, "[idx] " + images_of(folder_).string() + ": ");
    expect_contains(text,
                    length < 16 ? "needs a header of 16 bytes"
                                : "received a file of " + std::to_string(length));
  }
}

TEST_F(DamagedIdx, TruncatedGzIsRefusedAtEveryLength) {
  // The last 8 bytes are checksum and length: without them all pixels are there, yet unverified.
  std::size_t size = 0;
  pack_images(little_images(), [&](Content& packed) { size = packed.size(); });
  for (std::size_t length = 0; length < size; ++length) {
    pack_images(little_images(), [&](Content& packed) { packed.resize(length); });
    const auto text = damage(folder_);
    expect_contains(text, "[idx] " + gz(images_of(folder_)).string());
    const bool is_cut =
        text.find(": the compressed file is damaged or incomplete: ") != std::string::npos;
    if (!is_cut) expect_contains(text, ": needs ");
  }
}

TEST_F(DamagedIdx, FlippedBitInGzIsRefused) {
  for (const std::size_t from_end : {1U, 5U, 12U}) {  // length, checksum, compressed data
    pack_images(little_images(), [&](Content& packed) { packed[packed.size() - from_end] ^= 4; });
    expect_contains(damage(folder_), "the compressed file is damaged or incomplete: ");
  }
}

TEST_F(DamagedIdx, WrongMagicNumberIsRefused) {
  write_file(images_of(folder_), little_labels());
  expect_contains(damage(folder_), "a header of 16 bytes, received 13");
  auto floats = little_images();
  floats[2] = 0x0D;
  write_file(images_of(folder_), floats);
  expect_contains(damage(folder_), "magic number 2051, received 3331");
  write_file(images_of(folder_), little_images());
  write_file(label_file(folder_), little_images());
  expect_contains(damage(folder_), "magic number 2049, received 2051");
}

TEST_F(DamagedIdx, LabelOutOfRangeIsRefused) {
  write_file(label_file(folder_), idx_bytes({5}, {3, 1, 11, 1, 5}));
  expect_contains(damage(folder_), "labels < 10 (num_classes), received 11 at index 2");
  write_file(label_file(folder_), idx_bytes({5}, {3, 1, 10, 1, 5}));
  expect_contains(damage(folder_), "labels < 10 (num_classes), received 10 at index 2");
}

TEST_F(DamagedIdx, UnequalCountsAreRefused) {
  write_file(label_file(folder_), idx_bytes({4}, {3, 1, 4, 1}));
  expect_contains(damage(folder_), "as many labels as images (5), received 4");
}

TEST_F(DamagedIdx, ZeroDimensionIsRefused) {
  write_file(images_of(folder_), idx_bytes({0, 2, 3}, {}));
  expect_contains(damage(folder_), "dimensions >= 1, received 0 as dimension 0");
  write_file(images_of(folder_), idx_bytes({5, 2, 0}, {}));
  expect_contains(damage(folder_), "dimensions >= 1, received 0 as dimension 2");
}

TEST_F(DamagedIdx, OverflowingDimensionsAreRefused) {
  constexpr std::uint32_t most = 0xFFFFFFFF, power = 1U << 31;
  // The second product is 2^93; 2^31 * 2^31 * 4 is 2^64, that is 0 in 64 bits.
  for (const auto& dimensions : {std::array{most, most, most},
                                 std::array{power, power, power},
                                 std::array{power, power, 4U}}) {
    const auto bytes = idx_bytes({dimensions[0], dimensions[1], dimensions[2]}, little_pixels());
    write_file(images_of(folder_), bytes);
    expect_contains(damage(folder_), "the dimensions in the header need");
    write_gz(gz(images_of(folder_)), bytes);
    fs::remove(images_of(folder_));
    expect_contains(damage(folder_), "which is too small");
  }
}

TEST_F(DamagedIdx, GzThatAnnouncesMoreThanItHoldsIsRefused) {
  // Within deflate's largest ratio, so it is found by reading: 60 announced, 30 there.
  pack_images(idx_bytes({10, 2, 3}, little_pixels()), [](Content&) {});
  expect_contains(damage(folder_), "needs 60 bytes of data, received 30");
  // Beyond it: refused before 4 GB are allocated.
  pack_images(idx_bytes({65536, 256, 256}, little_pixels()), [](Content&) {});
  expect_contains(damage(folder_), "compressed bytes, which is too small");
}

TEST_F(DamagedIdx, GzThatAnnouncesFarMoreThanImagesCompressToIsRefused) {
  // 82 MB of 90 kB: within deflate's largest ratio, beyond 100 times + 64 MB. What is there does
  // not matter, as long as it does not shrink.
  Content there(90'000);
  std::uint32_t state = 1;
  for (auto& byte : there) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1) >> 24);
  write_gz(gz(images_of(folder_)), idx_bytes({20000, 64, 64}, there));
  fs::remove(images_of(folder_));
  expect_contains(damage(folder_), "compressed bytes, which is too small");
}

TEST_F(DamagedIdx, GzThatHoldsMoreThanItAnnouncesIsRefused) {
  // 8 MB of zeros in 8 kB, announced as 30 bytes; the reader stops at the 31st.
  Content bomb = little_pixels();
  bomb.resize(8 << 20);
  pack_images(idx_bytes({5, 2, 3}, bomb), [](Content&) {});
  expect_contains(damage(folder_), "needs 30 bytes of data, received more");
}

TEST_F(DamagedIdx, PlainFileWithBytesLeftOverIsRefused) {
  auto bytes = little_images();
  bytes.push_back(0);
  write_file(images_of(folder_), bytes);
  expect_contains(damage(folder_), "need 5 x 2 x 3 + 16 bytes, received a file of 47 bytes");
}

TEST_F(DamagedIdx, FolderInPlaceOfAFileIsMissing) {
  fs::remove(label_file(folder_));
  fs::create_directory(label_file(folder_));
  EXPECT_THROW(open_idx(folder_.path(), true), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
