#include "pca/kinds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "support/errors.h"
#include "support/random.h"
#include "tests/pca/laid_out.h"

namespace dimred::pca {
namespace {

using testing::kind_options;
using testing::LaidOutSource;
using testing::layer_columns;
using testing::layered_snapshots;
using testing::Matrix;
using testing::orthonormality_error;
using testing::random_matrix;
using testing::read_matrix;
using testing::six_layers;
using testing::source_of;
using testing::subspace_error;
using testing::uncentred_svd;

std::string kind_refusal(const SnapshotSource& source, const FitOptions& options) {
  const TemporaryFolder folder;
  std::string text = thrown<std::invalid_argument>([&] { fit(source, options, folder / "p.npy"); });
  EXPECT_TRUE(testing::names_in(folder).empty() || text == "no exception");
  return text;
}

TEST(Span, IsThatOfTheSnapshotsThemselves) {
  const TemporaryFolder folder;
  Matrix snapshots = random_matrix(11, 5003, 1);
  snapshots.array() += 2;  // a mean that centring would take away
  const auto source = source_of(snapshots);
  // Their Gram-Schmidt basis, by Householder: only the span is common.
  const Matrix expected = testing::orthonormal_rows(snapshots);
  for (const std::int64_t components : {0, 11}) {  // 0: all of them
    const Sidecar report =
        fit(*source, kind_options(Kind::span, components), folder / "p.npy").header;
    EXPECT_EQ(report.components, 11);
    const Matrix basis = read_matrix(folder / "p.npy");
    ASSERT_EQ(basis.rows(), 11);
    EXPECT_LT(subspace_error(basis, expected), 2e-7);  // of W's and P's rounding to float32
    EXPECT_LT(orthonormality_error(basis), 1e-7);
    const double sum = std::accumulate(
        report.explained_variance_ratio.begin(), report.explained_variance_ratio.end(), 0.0);
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Span, TakesItsLeadingRows) {
  const TemporaryFolder folder;
  Matrix snapshots = random_matrix(11, 3001, 2);
  for (int i = 0; i < 11; ++i) snapshots.row(i) *= std::pow(0.8, i);
  const Sidecar report =
      fit(*source_of(snapshots), kind_options(Kind::span, 4), folder / "p.npy").header;
  const testing::Svd svd = uncentred_svd(snapshots);
  EXPECT_LT(subspace_error(read_matrix(folder / "p.npy"), svd.rows.topRows(4)), 1e-7);
  for (int j = 0; j < 4; ++j) {
    const auto index = static_cast<std::size_t>(j);
    EXPECT_NEAR(report.singular_values[index] / svd.values(j), 1, 1e-12) << j;
    EXPECT_NEAR(report.explained_variance_ratio[index],
                std::pow(svd.values(j), 2) / svd.values.squaredNorm(),
                1e-12);
  }
}

TEST(Span, HoldsSnapshotsThatAreNearlyEqual) {
  const TemporaryFolder folder;
  // As late in training: steps of 2e-6 of the weights, s_n / s_1 = 4e-7.
  Matrix snapshots = 2e-6 * random_matrix(9, 20000, 3);
  snapshots.rowwise() += random_matrix(1, 20000, 4).row(0).eval();
  const auto source = source_of(snapshots);
  const Sidecar report = fit(*source, kind_options(Kind::span, 9), folder / "p.npy").header;
  EXPECT_TRUE(report.reorthonormalized);
  const Matrix basis = read_matrix(folder / "p.npy");
  EXPECT_LT(orthonormality_error(basis), 2.5e-7);
  const Matrix rounded = snapshots.cast<float>().cast<double>();
  const Matrix residual = rounded - (rounded * basis.transpose()) * basis;
  for (int i = 0; i < 9; ++i) {
    EXPECT_LT(residual.row(i).norm(), 3e-7 * rounded.row(i).norm()) << i;
  }
}

TEST(Span, NeedsSnapshotsThatAreIndependent) {
  Matrix snapshots = random_matrix(12, 4000, 5);
  snapshots.row(7) = snapshots.row(3);
  EXPECT_NE(kind_refusal(*source_of(snapshots), kind_options(Kind::span, 0))
                .find("span k = 12 directions, received 12 snapshots that span only 11"),
            std::string::npos);
  EXPECT_EQ(kind_refusal(*source_of(snapshots), kind_options(Kind::span, 11)), "no exception");
  EXPECT_EQ(kind_refusal(*source_of(snapshots), kind_options(Kind::span, 13)),
            "[pca] kind = span needs at least as many snapshots as components, received 12 "
            "snapshots and k = 13");
  snapshots(2, 3999) = HUGE_VAL;
  EXPECT_NE(kind_refusal(*source_of(snapshots), kind_options(Kind::span, 11)).find("column 3999"),
            std::string::npos);
}

TEST(Random, IsOrthonormalAndKnowsNothingOfTheSnapshots) {
  const TemporaryFolder folder;
  const LaidOutSource one(layered_snapshots(1, 6), six_layers());
  const LaidOutSource many(layered_snapshots(5, 7), six_layers());
  fit(one, kind_options(Kind::random, 6), folder / "one.npy");
  fit(many, kind_options(Kind::random, 6), folder / "many.npy");
  const Matrix basis = read_matrix(folder / "one.npy");
  EXPECT_LT(orthonormality_error(basis), 1e-7);
  EXPECT_TRUE(basis == read_matrix(folder / "many.npy"));
  FitOptions other = kind_options(Kind::random, 6);
  other.seed = 8;
  fit(one, other, folder / "other.npy");
  // Products of independent unit rows are normal of deviation 1 / sqrt(M) = 0.0047; of 36, 5 of
  // them are passed once in 50,000 times.
  const Matrix products = basis * read_matrix(folder / "other.npy").transpose();
  EXPECT_LT(products.cwiseAbs().maxCoeff(), 5 / std::sqrt(45010.0));
  EXPECT_GT(products.cwiseAbs().maxCoeff(), 0);
}

TEST(Random, IsGaussian) {
  const TemporaryFolder folder;
  fit(LaidOutSource(layered_snapshots(1, 6), six_layers()),
      kind_options(Kind::random, 8),
      folder / "p.npy");
  const Matrix z = read_matrix(folder / "p.npy") * std::sqrt(45010.0);
  const auto values = z.array();
  const auto count = static_cast<double>(z.size());  // 360,080; limits: four standard errors
  EXPECT_NEAR(values.mean(), 0, 4 / std::sqrt(count));
  EXPECT_NEAR(values.square().mean(), 1, 1e-6);  // by construction
  EXPECT_NEAR(values.pow(4).mean(), 3, 4 * std::sqrt(96 / count));
  const double beyond = (values.abs() > 2).cast<double>().mean();
  EXPECT_NEAR(beyond, 0.0455, 4 * std::sqrt(0.0455 / count));
  // Neighbours: row and column.
  const auto columns = z.cols() - 1;
  const double next = (z.leftCols(columns).array() * z.rightCols(columns).array()).mean();
  EXPECT_NEAR(next, 0, 4 / std::sqrt(count));
  // No column comes twice.
  std::set<std::vector<float>> different;
  for (Eigen::Index c = 0; c < z.cols(); ++c) different.insert(testing::to_float(z.col(c)));
  EXPECT_EQ(std::ssize(different), z.cols());
}

TEST(Random, KeepsItsRowsWhenThereAreMore) {
  const TemporaryFolder folder;
  const auto source = source_of(random_matrix(1, 7001, 8));
  fit(*source, kind_options(Kind::random, 3), folder / "three.npy");
  fit(*source, kind_options(Kind::random, 9), folder / "nine.npy");
  const Matrix moved =
      read_matrix(folder / "nine.npy").topRows(3) - read_matrix(folder / "three.npy");
  EXPECT_LT(moved.cwiseAbs().maxCoeff(), 1e-8);  // entries of 0.05 at most: a rounding to float32
}

TEST(Random, NeedsAsManyColumnsAsRows) {
  const auto source = source_of(random_matrix(1, 5, 9));
  EXPECT_EQ(kind_refusal(*source, kind_options(Kind::random, 6)),
            "[pca] needs at least as many weights as components, received 5 weights and k = 6");
  const TemporaryFolder folder;
  fit(*source, kind_options(Kind::random, 5), folder / "p.npy");
  EXPECT_LT(orthonormality_error(read_matrix(folder / "p.npy")), 1e-6);
}

TEST(Random, GivesTheSameBitsForAnyTileSizeAndThreadCount) {
  testing::expect_same_bits(*source_of(random_matrix(1, 60000, 10)), kind_options(Kind::random, 7));
}

TEST(Shuffled, IsThePcaWithTheColumnsOfEachLayerPermuted) {
  const TemporaryFolder folder;
  const layout::Layout layout = six_layers();
  const LaidOutSource source(layered_snapshots(8, 11), layout);
  const Sidecar pca = fit(source, kind_options(Kind::pca, 5), folder / "pca.npy").header;
  const Sidecar report = fit(source, kind_options(Kind::shuffled, 5), folder / "p.npy").header;
  const Matrix rows = read_matrix(folder / "pca.npy");
  Matrix expected(rows.rows(), rows.cols());
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const std::int64_t begin = layout.entries[i].file_offset, size = layout.entries[i].size;
    for (std::int64_t c = 0; c < size; ++c) {
      const auto from = permuted(static_cast<std::uint64_t>(c),
                                 static_cast<std::uint64_t>(size),
                                 7,
                                 RandomPurpose::shuffle,
                                 i);
      expected.col(begin + c) = rows.col(begin + static_cast<std::int64_t>(from));
    }
  }
  const Matrix basis = read_matrix(folder / "p.npy");
  EXPECT_TRUE(basis == expected);
  EXPECT_EQ(report.singular_values, pca.singular_values);
  EXPECT_LT(orthonormality_error(basis), 1e-7);
  // The wrong coordinates: of a row, what the PCA's rows hold of it is chance.
  EXPECT_LT((basis * rows.transpose()).cwiseAbs().maxCoeff(), 5 / std::sqrt(45010.0));
}

TEST(Shuffled, NeedsALayout) {
  EXPECT_NE(kind_refusal(*source_of(random_matrix(9, 50, 12)), kind_options(Kind::shuffled, 3))
                .find("kind shuffled needs snapshots with layer names"),
            std::string::npos);
}

}  // namespace
}  // namespace dimred::pca
