#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The small dense problems of a PCA, by LAPACKE (which sees one thread: see dense.cpp).
namespace dimred::pca {

struct Eigenpairs {
  std::vector<double> values;   // [n], largest first
  std::vector<double> vectors;  // [n x n], row j belongs to values[j]
};

/// All eigenpairs of a symmetric matrix whose lower triangle is matrix[i * stride + j], j <= i < n.
/// Throws std::runtime_error when LAPACKE_dsyevr fails.
Eigenpairs eigenpairs(std::span<const double> matrix, std::int64_t n, std::int64_t stride);

/// Replaces the columns 0..k-1 of c [rows x c_stride] by c L^-T, where L L' is the matrix whose
/// lower triangle is gram[i * stride + j]: afterwards the combinations are orthonormal
/// (CholeskyQR). Throws std::runtime_error when the matrix is not positive definite.
void orthonormalize(std::span<const double> gram,
                    std::int64_t k,
                    std::int64_t stride,
                    std::vector<double>& c,
                    std::int64_t c_stride);

/// max |A - I| of the symmetric k x k matrix A whose lower triangle is gram[i * stride + j].
double identity_error(std::span<const double> gram, std::int64_t k, std::int64_t stride);

}  // namespace dimred::pca
