#include "data/resident.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "data/image_files.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

TEST(Resident, KeepsImagesOfOneSize) {
  const TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) put(folder / ("a/" + std::to_string(i) + ".png"), image(i));
  const std::shared_ptr<const Dataset> files = open_image_folder(folder.path());
  const auto kept = resident(files, 9 * 60, 3);
  EXPECT_EQ(kept->shape(), (ImageShape{3, 4, 5}));
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(shade_of(*kept, i), i);
  EXPECT_NE(kept->description(), files->description());
  EXPECT_TRUE(kept->notes().empty());
  const auto grey = resident(files, 9 * 60, 3, /*channels=*/1);
  ASSERT_EQ(grey->notes().size(), 1);
  EXPECT_TRUE(grey->notes()[0].starts_with("9 of 9 images have colours, and are read as grey"));
  EXPECT_EQ(resident(files, 9 * 60 - 1, 3), files);           // too little memory
  EXPECT_EQ(resident(files, 9 * 60, 3, 0, false, 4), files);  // too long a side
  put(folder / "a/5.png", image(5, 5, 4));
  EXPECT_EQ(resident(files, 9 * 60, 3), files);
  put(folder / "a/5.png", "rubbish");
  const auto text = thrown<std::runtime_error>([&] { resident(files, 9 * 60, 3); });
  EXPECT_NE(text.find("5.png: needs a JPEG or PNG file"), std::string::npos) << text;
}

/// As from files: the reader decides whether another sample takes its place.
TEST(Resident, LeavesBadSamplesToTheReader) {
  const TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) put(folder / ("a/" + std::to_string(i) + ".png"), image(i));
  for (const auto* name : {"a/0.png", "a/5.png"}) put(folder / name, "rubbish");
  const std::shared_ptr<const Dataset> files = open_image_folder(folder.path());
  const auto kept = resident(files, 9 * 60, 3, 0, /*skip_bad=*/true);
  ASSERT_EQ(kept->shape(), (ImageShape{3, 4, 5}));  // of the first that is good
  const auto of = [](const Dataset& dataset) {
    return thrown<std::runtime_error>([&] { shade_of(dataset, 5); });
  };
  EXPECT_EQ(of(*kept), of(*files));
  EXPECT_EQ(shade_of(*kept, 6), 6);
  EXPECT_EQ(kept->digest(), files->digest());
  for (int i = 0; i < 9; ++i) put(folder / ("a/" + std::to_string(i) + ".png"), "rubbish");
  EXPECT_EQ(resident(files, 9 * 60, 3, 0, true), files);
}

TEST(Resident, TellsOfDamagedSamplesWithTheirPixels) {
  const TemporaryFolder folder;
  for (int i = 0; i < 300; ++i)
    put(folder / ("a/" + std::to_string(i) + ".jpg"), image(i % 200, 64, 64, false));
  const auto whole = image(50, 64, 64, false);
  for (int i = 0; i < 200; ++i)
    put(folder / ("a/" + std::to_string(i) + ".jpg"), whole.substr(0, whole.size() - 20));
  const std::shared_ptr<const Dataset> files = open_image_folder(folder.path());
  const auto kept = resident(files, 1 << 24, 2);
  std::vector<std::uint8_t> scratch;
  int damaged = 0;
  for (std::int64_t i = 0; i < 300; ++i) damaged += kept->read(i, scratch).damage.empty() ? 0 : 1;
  EXPECT_EQ(damaged, 200);
  EXPECT_TRUE(kept->notes().empty());
}

}  // namespace
}  // namespace dimred::data
