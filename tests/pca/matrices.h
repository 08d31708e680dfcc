#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <eigen3/Eigen/Dense>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "checkpoints/npy.h"
#include "pca/fit.h"
#include "tests/tools/temporary_folder.h"

// What the PCA tests share: matrices by construction and a float64 reference.
namespace dimred::pca::testing {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(item.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

inline Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  return Matrix::NullaryExpr(rows, columns, [&] { return normal(generator); });
}

/// Orthonormal rows.
inline Matrix random_rows(std::int64_t rows, std::int64_t columns, unsigned seed) {
  const Eigen::MatrixXd tall = random_matrix(rows, columns, seed).transpose();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(tall);
  return (qr.householderQ() * Eigen::MatrixXd::Identity(columns, rows)).transpose();
}

/// Orthonormal columns [n x r], each orthogonal to (1, ..., 1), so that centring changes nothing.
inline Matrix centred_columns(std::int64_t n, std::int64_t r, unsigned seed) {
  Eigen::MatrixXd tall = random_matrix(n, r + 1, seed);
  tall.col(0).setOnes();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(tall);
  const Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(n, r + 1);
  return q.rightCols(r);
}

inline std::vector<float> to_float(const Matrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

inline std::unique_ptr<SnapshotSource> source_of(const Matrix& matrix) {
  return memory_source(to_float(matrix), matrix.rows(), matrix.cols());
}

/// A C-order float32 matrix as our writer leaves it.
inline Matrix read_matrix(const std::filesystem::path& path) {
  const checkpoints::NpyHeader header = checkpoints::read_npy_header(path);
  const std::string bytes = text_of_file(path);
  std::vector<float> values(static_cast<std::size_t>(header.shape[0] * header.shape[1]));
  std::memcpy(values.data(), bytes.data() + header.data_offset, values.size() * sizeof(float));
  return Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
             values.data(), header.shape[0], header.shape[1])
      .cast<double>();
}

struct Svd {
  Eigen::VectorXd values;
  Matrix rows;  // right singular vectors
};

/// Float64 SVD of the centred float32 values: an independent method and library.
inline Svd reference_svd(const Matrix& matrix) {
  Matrix centred = matrix.cast<float>().cast<double>();
  centred.rowwise() -= centred.colwise().mean().eval();
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(centred.transpose(), Eigen::ComputeThinU);
  return {svd.singularValues(), svd.matrixU().transpose()};
}

/// Sine of the largest principal angle between two row spaces of equal dimension.
inline double subspace_error(const Matrix& rows, const Matrix& reference) {
  const Matrix residual = rows - (rows * reference.transpose()) * reference;
  return Eigen::JacobiSVD<Eigen::MatrixXd>(residual.transpose()).singularValues()(0);
}

inline double orthonormality_error(const Matrix& rows) {
  return (rows * rows.transpose() - Matrix::Identity(rows.rows(), rows.rows()))
      .cwiseAbs()
      .maxCoeff();
}

inline FitOptions options_of(std::int64_t components) {
  FitOptions options;
  options.components = components;
  return options;
}

}  // namespace dimred::pca::testing
