#include "support/list_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

TEST(NaturalLess, ComparesDigitsAsNumbers) {
  const std::vector<std::string> sorted{"",
                                        "1",
                                        "a",
                                        "a1",
                                        "a2",
                                        "a02b",
                                        "a2b",
                                        "a10",
                                        "a10b",
                                        "a99999999999999999998",
                                        "a99999999999999999999",
                                        "ab",
                                        "b0"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(natural_less(sorted[i], sorted[j]), i < j) << sorted[i] << " < " << sorted[j];
    }
  }
}

TEST(ListFiles, SortsNaturallyAndSkipsTemporariesAndFolders) {
  const TemporaryFolder folder;
  for (const auto* name :
       {"s_10.h5", "s_9.h5", "s_100.h5", "s_1.npy", "s_2.h5.tmp", "s_3.txt", "._s_9.h5"}) {
    put_file(folder / name, "");
  }
  std::filesystem::create_directory(folder / "s_4.h5");
  const auto files = list_files(folder.path(), {".h5", ".npy"});
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"s_1.npy", "s_9.h5", "s_10.h5", "s_100.h5"}));
}

TEST(ListFiles, RefusesAMissingFolder) {
  const TemporaryFolder folder;
  EXPECT_THROW(list_files(folder / "none", {".h5"}), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::checkpoints
