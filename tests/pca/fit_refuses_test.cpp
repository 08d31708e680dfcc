#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "tests/pca/matrices.h"

namespace dimred::pca {
namespace {

using ::testing::HasSubstr;
using testing::Matrix;
using testing::options_of;
using testing::random_matrix;
using testing::source_of;

std::string refusal(const SnapshotSource& source,
                    std::int64_t components,
                    const std::filesystem::path& output) {
  return thrown<std::invalid_argument>([&] { fit(source, options_of(components), output); });
}

TEST(FitRefuses, FewerSnapshotsThanComponentsPlusOne) {
  const TemporaryFolder folder;
  const auto source = source_of(random_matrix(20, 100, 1));
  EXPECT_EQ(refusal(*source, 32, folder / "p.npy"),
            "[pca] needs more snapshots than components, received 20 snapshots and k = 32; these "
            "snapshots have at most 19 "
            "components");
  EXPECT_EQ(refusal(*source, 20, folder / "p.npy"),
            "[pca] needs more snapshots than components, received 20 snapshots and k = 20; these "
            "snapshots have at most 19 "
            "components");
  EXPECT_EQ(refusal(*source, 0, folder / "p.npy"),
            "[pca] needs at least one component, received k = 0");
  EXPECT_EQ(refusal(*source, 19, folder / "p.npy"), "no exception");
}

TEST(FitRefuses, FewerDirectionsThanComponents) {
  const TemporaryFolder folder;
  Matrix snapshots = random_matrix(12, 4000, 2);
  snapshots.row(7) = snapshots.row(3);
  EXPECT_THAT(refusal(*source_of(snapshots), 11, folder / "p.npy"),
              HasSubstr("k = 11 directions, received 12 snapshots that span only 10"));
  snapshots.rowwise() = snapshots.row(0).eval();
  EXPECT_THAT(refusal(*source_of(snapshots), 1, folder / "p.npy"),
              HasSubstr("12 snapshots that span only 0"));
  // Fewer columns than components: 3 columns span 3 directions.
  EXPECT_THAT(refusal(*source_of(random_matrix(12, 3, 3)), 4, folder / "p.npy"),
              HasSubstr("span only 3"));
  EXPECT_TRUE(testing::names_in(folder).empty());
}

TEST(FitRefuses, ValuesThatAreNotFiniteByRowAndColumn) {
  const TemporaryFolder folder;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    Matrix snapshots = random_matrix(9, 7000, 4);
    snapshots(5, 6999) = bad;
    const std::string text = refusal(*source_of(snapshots), 3, folder / "p.npy");
    EXPECT_THAT(text, HasSubstr("row 5 (memory[5]), column 6999"));
  }
  EXPECT_TRUE(testing::names_in(folder).empty());
}

TEST(FitRefuses, OutputsThatWouldDestroySomething) {
  const TemporaryFolder folder;
  fit(*source_of(random_matrix(9, 50, 5)), options_of(8), folder / "w.npy");
  std::filesystem::remove(folder / "w.json");
  const std::string before = text_of_file(folder / "w.npy");
  std::filesystem::create_hard_link(folder / "w.npy", folder / "link.npy");
  const auto source = open_source(folder / "w.npy");
  EXPECT_THAT(refusal(*source, 3, folder / "w.npy"),
              HasSubstr("an output other than the snapshots that the PCA reads"));
  EXPECT_THAT(refusal(*source, 3, folder / "link.npy"),
              HasSubstr("an output other than the snapshots that the PCA reads"));
  EXPECT_EQ(text_of_file(folder / "w.npy"), before);

  put_file(folder / "other.json", "{\"mine\": 1}\n");
  EXPECT_THAT(refusal(*source, 3, folder / "other.npy"), HasSubstr("other.json"));
  EXPECT_EQ(text_of_file(folder / "other.json"), "{\"mine\": 1}\n");

  EXPECT_THAT(refusal(*source, 3, folder / "p.txt"), HasSubstr("ends in .npy"));
  EXPECT_THAT(refusal(*source, 3, folder / "none/p.npy"), HasSubstr("folder"));
  std::filesystem::create_directory(folder / "d.npy");
  EXPECT_THAT(refusal(*source, 3, folder / "d.npy"), HasSubstr("folder"));
  FitOptions options = options_of(3);
  options.tile_bytes = 1000;
  EXPECT_THROW(fit(*source, options, folder / "p.npy"), std::invalid_argument);
}

/// Fails at the given read, as a disk would.
class FailingSource final : public SnapshotSource {
 public:
  FailingSource(const SnapshotSource& good, int reads)
      : SnapshotSource(good.info()), good_(good), left_(reads) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    if (left_-- <= 0) throw std::runtime_error("disk on fire");
    good_.read(row, begin, out);
  }

 private:
  const SnapshotSource& good_;
  mutable std::atomic<int> left_;
};

TEST(FitRefuses, ToLeaveAnythingBehindAfterAReadError) {
  const TemporaryFolder folder;
  const auto good = source_of(random_matrix(6, 40000, 6));  // 10 blocks, 60 reads a pass
  fit(*good, options_of(2), folder / "p.npy");
  const std::string matrix = text_of_file(folder / "p.npy");
  const std::string sidecar = text_of_file(folder / "p.json");
  for (const int reads : {0, 31, 60, 91}) {
    const FailingSource failing(*good, reads);
    EXPECT_EQ(thrown<std::runtime_error>([&] { fit(failing, options_of(2), folder / "q.npy"); }),
              "disk on fire");
    EXPECT_EQ(thrown<std::runtime_error>([&] { fit(failing, options_of(2), folder / "p.npy"); }),
              "disk on fire");
    EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"})) << reads;
  }
  EXPECT_EQ(text_of_file(folder / "p.npy"), matrix);
  EXPECT_EQ(text_of_file(folder / "p.json"), sidecar);
}

}  // namespace
}  // namespace dimred::pca
