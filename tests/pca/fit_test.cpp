#include "pca/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/pca/matrices.h"

namespace dimred::pca {
namespace {

using testing::Matrix;
using testing::options_of;
using testing::orthonormality_error;
using testing::random_matrix;
using testing::read_matrix;
using testing::reference_svd;
using testing::source_of;
using testing::subspace_error;

// P is stored in float32: an entry is off by at most 6e-8 of itself, so a row of norm 1 by at most
// 6e-8.
constexpr double float_row = 6e-8;

/// W = V S Q + 1 m', with chosen right singular vectors Q and singular values.
struct Constructed {
  Matrix rows;  // Q
  Eigen::VectorXd values;
  Matrix snapshots;
};

Constructed construct(std::int64_t n, std::int64_t columns, const Eigen::VectorXd& values) {
  const std::int64_t r = values.size();
  Constructed made{testing::random_rows(r, columns, 1), values, {}};
  made.snapshots = testing::centred_columns(n, r, 2) * values.asDiagonal() * made.rows;
  return made;
}

Eigen::VectorXd geometric(std::int64_t count, double last) {
  return Eigen::VectorXd::NullaryExpr(count, [&](Eigen::Index j) {
    return std::pow(last, static_cast<double>(j) / static_cast<double>(count - 1));
  });
}

TEST(Fit, RecoversABasisByConstruction) {
  const TemporaryFolder folder;
  // 9001 columns: two whole blocks of 4096 and a rest that no vector length divides.
  const Constructed made = construct(24, 9001, geometric(8, 1e-2));
  const Sidecar report = fit(*source_of(made.snapshots), options_of(5), folder / "p.npy").header;
  const Matrix basis = read_matrix(folder / "p.npy");
  ASSERT_EQ(basis.rows(), 5);
  ASSERT_EQ(basis.cols(), 9001);
  // Rounding W to float32 moves it by about 3e-8 s_1 / sqrt(n) in norm (entries of s_1 / sqrt(nM),
  // 3e-8 off at random); the gap to the next singular value is at least 0.48 s_j.
  for (int j = 0; j < 5; ++j) {
    const double noise = 3e-8 / std::sqrt(24.0) / (0.48 * made.values(j));
    Eigen::Index largest = 0;
    made.rows.row(j).cwiseAbs().maxCoeff(&largest);
    const double sign = made.rows(j, largest) > 0 ? 1 : -1;
    EXPECT_LT((basis.row(j) - sign * made.rows.row(j)).norm(), float_row + 4 * noise) << j;
    EXPECT_NEAR(report.singular_values[static_cast<std::size_t>(j)], made.values(j), 1e-7) << j;
  }
  const double total = made.values.squaredNorm();
  EXPECT_NEAR(report.explained_variance_ratio[0], 1 / total, 1e-7);
}

TEST(Fit, AgreesWithAFloat64Svd) {
  const TemporaryFolder folder;
  Matrix snapshots = random_matrix(20, 3001, 3);
  for (int i = 0; i < 20; ++i) snapshots.row(i) *= std::pow(0.8, i);
  snapshots.rowwise() += Eigen::RowVectorXd::Constant(3001, 5.0);  // a mean to take away
  const Sidecar report = fit(*source_of(snapshots), options_of(12), folder / "p.npy").header;
  const testing::Svd svd = reference_svd(snapshots);
  const Matrix basis = read_matrix(folder / "p.npy");
  EXPECT_LT(subspace_error(basis, svd.rows.topRows(12)), 1e-7);
  EXPECT_LT(orthonormality_error(basis), 1e-7);
  EXPECT_NEAR(report.orthonormality_error, orthonormality_error(basis), 1e-12);
  for (int j = 0; j < 12; ++j) {
    const auto index = static_cast<std::size_t>(j);
    EXPECT_NEAR(report.singular_values[index] / svd.values(j), 1, 1e-12) << j;
    EXPECT_NEAR(report.explained_variance_ratio[index],
                std::pow(svd.values(j), 2) / svd.values.squaredNorm(),
                1e-12);
  }
  EXPECT_FALSE(report.reorthonormalized);
}

TEST(Fit, GivesTheSameBitsForAnyTileSizeAndThreadCount) {
  // 33 rows: no multiple of a kernel's tile. 60,000 columns: W is 7.9 MB, larger than the 1 MiB of
  // tiles that the first run gets.
  testing::expect_same_bits(*source_of(random_matrix(33, 60000, 5)), options_of(9));
}

TEST(Fit, GivesTheSameBitsInMemory) {
  const TemporaryFolder folder;
  const Matrix snapshots = random_matrix(20, 40000, 6);
  const auto source = source_of(snapshots);
  for (const Kind kind : {Kind::pca, Kind::span, Kind::random}) {
    std::vector<double> mean(40000);
    FitOptions options = options_of(7);
    options.kind = kind;
    if (kind != Kind::random) options.mean = mean;
    fit(*source, options, folder / "p.npy");
    const auto file = text_of_file(folder / "p.npy");
    std::vector<float> matrix(9 * 40000);  // more than is asked for
    const auto header = fit_in_memory(*source, options, matrix).header;
    ASSERT_EQ(header.components, 7);
    EXPECT_EQ(file.substr(128), std::string(reinterpret_cast<char*>(matrix.data()), 7 * 160000));
    EXPECT_EQ(to_json(header), text_of_file(folder / "p.json")) << "digests too";
    for (std::int64_t c = 0; c < 40000 && kind != Kind::random; ++c) {
      ASSERT_NEAR(mean[c], snapshots.col(c).cast<float>().cast<double>().mean(), 1e-15) << c;
    }
    std::vector<float> small(7 * 40000 - 1);
    EXPECT_THROW(fit_in_memory(*source, options, small), std::invalid_argument);
  }
  EXPECT_EQ(testing::names_in(folder), (std::vector<std::string>{"p.json", "p.npy"}));
}

TEST(Fit, KeepsASteepSpectrumOrthonormal) {
  const TemporaryFolder folder;
  // The steepest that is taken: the eigenvalue, 4e-14 of the largest, is 11 times what counts as a
  // direction; the first P is off by some 1e-2, which a correction right to first order only would
  // leave 1e-4.
  for (const double last : {1e-6, 2e-7}) {
    const Constructed made = construct(16, 20000, geometric(10, last));
    const Sidecar report = fit(*source_of(made.snapshots), options_of(10), folder / "p.npy").header;
    const Matrix basis = read_matrix(folder / "p.npy");
    EXPECT_TRUE(report.reorthonormalized) << last;
    EXPECT_LT(orthonormality_error(basis), 2e-7) << last;
    EXPECT_LT(report.orthonormality_error, 2e-7) << last;
    if (last < 1e-6) continue;
    // A Gram matrix in float64 knows eigenvalues to about 2.2e-16 of the largest: directions to
    // 2.2e-16 / 1e-12, times a small number for the sums.
    EXPECT_LT(subspace_error(basis, reference_svd(made.snapshots).rows.topRows(10)), 2e-3);
  }
}

TEST(Fit, TakesEqualSnapshotsWhereTheRankAllows) {
  const TemporaryFolder folder;
  Matrix snapshots = random_matrix(12, 4000, 6);
  snapshots.row(7) = snapshots.row(3);
  fit(*source_of(snapshots), options_of(10), folder / "p.npy");
  EXPECT_LT(
      subspace_error(read_matrix(folder / "p.npy"), reference_svd(snapshots).rows.topRows(10)),
      1e-7);
}

TEST(Fit, GivesTheSameBasisByEverySetOfKernels) {
  const TemporaryFolder folder;
  const Matrix snapshots = random_matrix(23, 9000, 8);
  const auto source = source_of(snapshots);
  fit(*source, options_of(11), folder / "p.npy");
  const Matrix expected = read_matrix(folder / "p.npy");
  for (const KernelSet set : {KernelSet::avx512, KernelSet::avx2, KernelSet::baseline}) {
    FitOptions options = options_of(11);
    options.kernels = set;
    try {
      fit(*source, options, folder / "q.npy");
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("processor"), std::string::npos) << error.what();
      EXPECT_NE(set, KernelSet::baseline);
      continue;
    }
    // Entries are about 1 / sqrt(9000) = 0.01; two roundings to float32 differ by 1e-9 at most.
    EXPECT_LT((read_matrix(folder / "q.npy") - expected).cwiseAbs().maxCoeff(), 4e-9);
  }
}

TEST(RandomWalk, MatchesThePublishedTable) {
  struct SnapshotRow {
    std::int64_t snapshots, components;
    double percent;
  };
  for (const SnapshotRow& row : {SnapshotRow{40, 1, 60.86},
                                 {40, 8, 93.17},
                                 {40, 32, 99.32},
                                 {60, 1, 60.82},
                                 {60, 3, 82.81},
                                 {60, 32, 98.62},
                                 {70, 2, 76.03},
                                 {70, 32, 98.49},
                                 {101, 16, 96.40},
                                 {101, 32, 98.30}}) {
    double sum = 0;
    for (const double ratio : random_walk_ratio(row.snapshots, row.components)) sum += ratio;
    EXPECT_NEAR(100 * sum, row.percent, 0.005 + 1e-9) << row.snapshots << ' ' << row.components;
  }
}

TEST(RandomWalk, IsComplete) {
  double sum = 0;
  for (const double ratio : random_walk_ratio(9, 8)) sum += ratio;
  EXPECT_NEAR(sum, 1, 1e-15);
  EXPECT_THROW(random_walk_ratio(9, 9), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::pca
