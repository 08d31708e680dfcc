#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

// The small dense problems of a PCA, by LAPACKE (which sees one thread: see dense.cpp).
namespace dimred::pca {

/// a' b [k x n] of a [m x k] and b [m x n].
Eigen::MatrixXd transposed_product(const Eigen::Ref<const Eigen::MatrixXd>& a,
                                   const Eigen::MatrixXd& b);

struct Eigenpairs {
  std::vector<double> values;   // [n], largest first
  std::vector<double> vectors;  // [n x n], row j belongs to values[j]
};

/// The lower triangle matrix[i * stride + j], j <= i < n, row behind row: what the functions below
/// take, and what ranks sum.
std::vector<double> lower_of(std::span<const double> matrix, std::int64_t n, std::int64_t stride);

/// All eigenpairs of the symmetric n x n matrix with this lower triangle.
/// Throws std::runtime_error when LAPACKE_dsyevr fails.
Eigenpairs eigenpairs(std::span<const double> lower, std::int64_t n);

/// Replaces the columns 0..k-1 of c [rows x c_stride] by c L^-T, where L L' is the matrix whose
/// lower triangle is `lower`: afterwards the combinations are orthonormal (CholeskyQR). Throws
/// std::runtime_error when the matrix is not positive definite.
void orthonormalize(std::span<const double> lower,
                    std::int64_t k,
                    std::vector<double>& c,
                    std::int64_t c_stride);

/// max |A - I| of the symmetric k x k matrix A with this lower triangle; with `zeros` an entry of
/// exactly 0 in the diagonal is right, too.
double identity_error(std::span<const double> lower, std::int64_t k, bool zeros = false);

}  // namespace dimred::pca
