#pragma once

#include <cstdint>
#include <eigen3/Eigen/Core>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pca/fit.h"
#include "tests/tools/temporary_folder.h"

// Tools that the PCA tests share: matrices by construction and a float64 reference. The
// decompositions are compiled once, in matrices.cpp.
namespace dimred::pca::testing {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<std::string> names_in(const TemporaryFolder& folder);

Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed);

/// Orthonormal rows with the span of these, by Householder.
Matrix orthonormal_rows(const Matrix& rows);

/// Orthonormal rows.
Matrix random_rows(std::int64_t rows, std::int64_t columns, unsigned seed);

/// Orthonormal columns [n x r], each orthogonal to (1, ..., 1), so that centring changes nothing.
Matrix centred_columns(std::int64_t n, std::int64_t r, unsigned seed);

std::vector<float> to_float(const Matrix& matrix);

std::unique_ptr<SnapshotSource> source_of(const Matrix& matrix);

/// A C-order float32 matrix as our writer leaves it.
Matrix read_matrix(const std::filesystem::path& path);

struct Svd {
  Eigen::VectorXd values;
  Matrix rows;  // right singular vectors
};

/// Float64 SVD of the float32 values as they are: an independent method and library.
Svd uncentred_svd(const Matrix& matrix);

/// Returns the SVD of the centred values.
Svd reference_svd(const Matrix& matrix);

/// Sine of the largest principal angle between two row spaces of equal dimension.
double subspace_error(const Matrix& rows, const Matrix& reference);

/// The eigenvalues of a symmetric matrix, ascending.
Eigen::VectorXd eigenvalues_of(const Matrix& symmetric);

double orthonormality_error(const Matrix& rows);

FitOptions options_of(std::int64_t components);

/// A fit leaves the same bits for any size of its tiles and any number of threads: 8 have tiles of
/// 1024 columns in 1 MiB.
void expect_same_bits(const SnapshotSource& source, FitOptions options);

}  // namespace dimred::pca::testing
