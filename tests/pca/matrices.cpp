#include "tests/pca/matrices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <eigen3/Eigen/Dense>
#include <iterator>
#include <random>

#include "checkpoints/npy.h"

namespace dimred::pca::testing {
namespace {

class MemorySource final : public SnapshotSource {
 public:
  explicit MemorySource(const Matrix& matrix)
      : SnapshotSource(info_of(matrix)), values_(to_float(matrix)) {}
  void read(std::int64_t row, std::int64_t begin, std::span<float> out) const override {
    std::copy_n(values_.data() + row * columns() + begin, out.size(), out.data());
  }

 private:
  static SourceInfo info_of(const Matrix& matrix) {
    SourceInfo info{.rows = matrix.rows(), .columns = matrix.cols()};
    for (std::int64_t i = 0; i < info.rows; ++i)
      info.names.push_back("memory[" + std::to_string(i) + ']');
    return info;
  }
  std::vector<float> values_;
};

}  // namespace

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(item.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  return Matrix::NullaryExpr(rows, columns, [&] { return normal(generator); });
}

Matrix orthonormal_rows(const Matrix& rows) {
  const Eigen::MatrixXd tall = rows.transpose();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(tall);
  return (qr.householderQ() * Eigen::MatrixXd::Identity(tall.rows(), tall.cols())).transpose();
}

Matrix random_rows(std::int64_t rows, std::int64_t columns, unsigned seed) {
  return orthonormal_rows(random_matrix(rows, columns, seed));
}

Matrix centred_columns(std::int64_t n, std::int64_t r, unsigned seed) {
  Eigen::MatrixXd tall = random_matrix(n, r + 1, seed);
  tall.col(0).setOnes();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(tall);
  const Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(n, r + 1);
  return q.rightCols(r);
}

std::vector<float> to_float(const Matrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

std::unique_ptr<SnapshotSource> source_of(const Matrix& matrix) {
  return std::make_unique<MemorySource>(matrix);
}

Matrix read_matrix(const std::filesystem::path& path) {
  const checkpoints::NpyHeader header = checkpoints::read_npy_header(path);
  const std::string bytes = text_of_file(path);
  std::vector<float> values(static_cast<std::size_t>(header.shape[0] * header.shape[1]));
  std::memcpy(values.data(), bytes.data() + header.data_offset, values.size() * sizeof(float));
  return Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             values.data(), header.shape[0], header.shape[1])
      .cast<double>();
}

namespace {

Svd svd_of(const Matrix& values) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(values.transpose(), Eigen::ComputeThinU);
  return {svd.singularValues(), svd.matrixU().transpose()};
}

}  // namespace

Svd uncentred_svd(const Matrix& matrix) { return svd_of(matrix.cast<float>().cast<double>()); }

Svd reference_svd(const Matrix& matrix) {
  Matrix centred = matrix.cast<float>().cast<double>();
  centred.rowwise() -= centred.colwise().mean().eval();
  return svd_of(centred);
}

double subspace_error(const Matrix& rows, const Matrix& reference) {
  const Matrix residual = rows - (rows * reference.transpose()) * reference;
  return Eigen::JacobiSVD<Eigen::MatrixXd>(residual.transpose()).singularValues()(0);
}

Eigen::VectorXd eigenvalues_of(const Matrix& symmetric) {
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(symmetric).eigenvalues();
}

double orthonormality_error(const Matrix& rows) {
  return (rows * rows.transpose() - Matrix::Identity(rows.rows(), rows.rows()))
      .cwiseAbs()
      .maxCoeff();
}

FitOptions options_of(std::int64_t components) {
  FitOptions options;
  options.components = components;
  return options;
}

void expect_same_bits(const SnapshotSource& source, FitOptions options) {
  const TemporaryFolder folder;
  std::string first;
  for (const std::int64_t tile_bytes : {1 << 20, 3 << 20, 64 << 20}) {
    for (const std::int64_t threads : {1, 2, 3, 8}) {
      options.tile_bytes = tile_bytes;
      options.threads = threads;
      fit(source, options, folder / "p.npy");
      const std::string bytes = text_of_file(folder / "p.npy");
      if (first.empty()) first = bytes;
      EXPECT_EQ(std::ssize(first), 128 + 4 * options.components * source.columns());
      EXPECT_TRUE(bytes == first) << tile_bytes << " bytes, " << threads << " threads";
    }
  }
}

}  // namespace dimred::pca::testing
