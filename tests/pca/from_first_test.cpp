#include "pca/from_first.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "support/errors.h"
#include "tests/pca/laid_out.h"
#include "tests/pca/matrices.h"

namespace dimred::pca {
namespace {

using testing::kind_options;
using testing::LaidOutSource;
using testing::Matrix;

/// Far from zero, so that differences of float32 values need more than float32 sums.
Matrix far_snapshots() { return testing::layered_snapshots(9, 1).array() + 100; }

TEST(FromFirst, FitsTheUncentredComponentsOfTheDifferences) {
  const TemporaryFolder folder;
  const Matrix rows = far_snapshots().cast<float>().cast<double>();
  const Matrix differences = rows.bottomRows(8).rowwise() - rows.row(0);
  const LaidOutSource source(rows, testing::six_layers());
  const auto header =
      fit(*from_first(source), kind_options(Kind::span, 4), folder / "p.npy").header;
  const auto expected = testing::uncentred_svd(differences);
  EXPECT_EQ(header.snapshots, 8);
  for (int j = 0; j < 4; ++j)
    EXPECT_NEAR(header.singular_values[j] / expected.values[j], 1, 1e-6) << j;
  const Matrix p = testing::read_matrix(folder / "p.npy");
  EXPECT_LT(testing::subspace_error(p, expected.rows.topRows(4)), 1e-5);
}

TEST(FromFirst, NamesBothSnapshotsOfARow) {
  const LaidOutSource source(far_snapshots(), testing::six_layers(), {3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto differences = from_first(source);
  EXPECT_EQ(differences->info().names.at(1), "row 2 - row 0");
  EXPECT_EQ(differences->info().epochs.front(), 4);
  std::vector<float> values(3);
  differences->read(7, 16383, values);
  const Matrix rows = far_snapshots().cast<float>().cast<double>();
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(values[c], static_cast<float>(rows(8, 16383 + c) - rows(0, 16383 + c)));
  const LaidOutSource one(far_snapshots().topRows(1), testing::six_layers());
  EXPECT_THROW(from_first(one), std::invalid_argument);
}

/// The eigenvalues of min(i, j).
TEST(FromFirst, KnowsARandomWalk) {
  Matrix walk(12, 12);
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 12; ++j) walk(i, j) = 1 + std::min(i, j);
  const auto values = testing::eigenvalues_of(walk);
  const auto shares = random_walk_from_first(12, 12);
  for (int j = 0; j < 12; ++j) EXPECT_NEAR(shares[j], values[11 - j] / walk.trace(), 1e-13) << j;
  EXPECT_NEAR(
      random_walk_from_first(10000, 1).front(), 8 / (std::numbers::pi * std::numbers::pi), 1e-4);
  EXPECT_THROW(random_walk_from_first(12, 13), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::pca
