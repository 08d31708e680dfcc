#include <gtest/gtest.h>

#include "checkpoints/snapshot.h"
#include "tests/pca/laid_out.h"
#include "tests/pca/sources.h"

namespace dimred::pca {
namespace {

using testing::kind_options;
using testing::LaidOutSource;
using testing::Matrix;
using testing::random_matrix;
using testing::read_matrix;
using testing::source_of;

/// The matrix of the rows at `indices` alone is that of all rows with `range`, bit by bit.
void expect_rows(const SnapshotSource& source,
                 const Matrix& rows,
                 const SnapshotRange& range,
                 const std::vector<Eigen::Index>& indices) {
  const TemporaryFolder folder;
  Matrix used(std::ssize(indices), rows.cols());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    used.row(static_cast<Eigen::Index>(i)) = rows.row(indices[i]);
  }
  FitOptions options = kind_options(Kind::span, 0);
  fit(*source_of(used), options, folder / "expected.npy");
  options.snapshots = range;
  const Sidecar report = fit(source, options, folder / "p.npy").header;
  EXPECT_EQ(report.snapshots, std::ssize(indices));
  EXPECT_TRUE(text_of_file(folder / "p.npy") == text_of_file(folder / "expected.npy"));
}

TEST(SnapshotRange, CountsEpochsWhereSnapshotsKnowThem) {
  const Matrix rows = random_matrix(8, 300, 1);
  const LaidOutSource source(rows, testing::layout_of({{"w", 300}}), {1, 1, 2, 2, 2, 3, 9, 9});
  expect_rows(source, rows, {}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_rows(source, rows, {.from = 2}, {2, 3, 4, 5, 6, 7});
  expect_rows(source, rows, {.to = 2}, {0, 1, 2, 3, 4});
  expect_rows(source, rows, {.from = 2, .to = 8}, {2, 3, 4, 5});
  expect_rows(source, rows, {.from = 4}, {6, 7});
  expect_rows(source, rows, {.from = 1, .skip = 1}, {0, 2, 4, 6});
  expect_rows(source, rows, {.from = 2, .skip = 2}, {2, 5});
  expect_rows(source, rows, {.skip = 100}, {0});
}

TEST(SnapshotRange, CountsPlacesElsewhere) {
  const Matrix rows = random_matrix(6, 300, 2);
  const auto source = source_of(rows);
  expect_rows(*source, rows, {.from = 2, .to = 4}, {1, 2, 3});
  expect_rows(*source, rows, {.to = 5, .skip = 1}, {0, 2, 4});
}

TEST(SnapshotRange, RefusesWhatHoldsNothing) {
  const TemporaryFolder folder;
  const LaidOutSource source(
      random_matrix(4, 50, 3), testing::layout_of({{"w", 50}}), {3, 4, 5, 6});
  const auto refusal = [&](const SnapshotRange& range) {
    FitOptions options = kind_options(Kind::pca, 1);
    options.snapshots = range;
    return thrown<std::invalid_argument>([&] { fit(source, options, folder / "p.npy"); });
  };
  EXPECT_NE(refusal({.from = 7})
                .find("(from = 7, to = 0) holds no snapshot; choose within epochs 3 to 6"),
            std::string::npos);
  EXPECT_NE(refusal({.to = 2}).find("choose within epochs 3 to 6"), std::string::npos);
  EXPECT_NE(refusal({.from = 5, .to = 4}).find("from <= to"), std::string::npos);
  EXPECT_NE(refusal({.skip = -1}).find("skip >= 0"), std::string::npos);
  EXPECT_EQ(refusal({.from = 6}),
            "[pca] needs more snapshots than components, received 1 snapshots and k = 1; these "
            "snapshots have at most 0 components");
  EXPECT_EQ(folder.count(), 0U);
}

TEST(SnapshotRange, ReadsEpochsFromSnapshotsAndNamesThoseUsed) {
  const TemporaryFolder folder;
  const layout::Layout layout = testing::small_layout(30);
  const Matrix rows = random_matrix(6, layout.file_size, 4);
  for (int i = 0; i < 6; ++i) {
    checkpoints::Snapshot snapshot = testing::snapshot_of(layout, rows.row(i));
    snapshot.epoch = 10 + i / 2;
    checkpoints::write_snapshot(folder / ("s" + std::to_string(i) + ".h5"), snapshot);
  }
  EXPECT_EQ(open_source(folder.path())->info().epochs,
            (std::vector<std::int64_t>{10, 10, 11, 11, 12, 12}));
  const TemporaryFolder out;
  FitOptions options = kind_options(Kind::pca, 2);
  options.snapshots = {.from = 11};
  EXPECT_EQ(fit_snapshots(folder.path(), options, out / "p.npy").header.snapshots, 4);
  const std::string sidecar = text_of_file(out / "p.json");
  EXPECT_EQ(sidecar.find("s1.h5"), std::string::npos);
  EXPECT_NE(sidecar.find("s2.h5"), std::string::npos);
  fit(*source_of(rows.bottomRows(4)), kind_options(Kind::pca, 2), out / "expected.npy");
  EXPECT_TRUE(text_of_file(out / "p.npy") == text_of_file(out / "expected.npy"));
}

}  // namespace
}  // namespace dimred::pca
