#include "pca/dense.h"

#include <cblas.h>
#include <lapacke.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>

#include "support/errors.h"

namespace dimred::pca {
namespace {

/// The symmetric matrix as a dense n x n one, zero above the diagonal.
std::vector<double> dense_of(std::span<const double> lower, std::int64_t n) {
  std::vector<double> dense(n * n);
  auto from = lower.begin();
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(from, i + 1, dense.begin() + i * n);
    from += i + 1;
  }
  return dense;
}

/// Throws std::bad_alloc without room for OpenBLAS's lasting buffer of its first call: OpenBLAS
/// would ask for it again for ever. (Each concurrent thread has one; this sees the first.)
void require_buffer() {
  constexpr std::size_t bytes = std::size_t{128} << 20;  // BUFFER_SIZE of OpenBLAS 0.3
  static const bool there = [] {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::munmap(memory, bytes);
    return true;
  }();
  check(there, "no buffer, and no exception");
}

}  // namespace

Eigen::MatrixXd transposed_product(const Eigen::Ref<const Eigen::MatrixXd>& a,
                                   const Eigen::MatrixXd& b) {
  Eigen::MatrixXd product = Eigen::MatrixXd::Zero(a.cols(), b.cols());
  if (a.size() == 0 || b.size() == 0) return product;
  require_buffer();
  cblas_dgemm(CblasColMajor,
              CblasTrans,
              CblasNoTrans,
              static_cast<int>(a.cols()),
              static_cast<int>(b.cols()),
              static_cast<int>(a.rows()),
              1,
              a.data(),
              static_cast<int>(a.outerStride()),
              b.data(),
              static_cast<int>(b.rows()),
              0,
              product.data(),
              static_cast<int>(product.rows()));
  return product;
}

std::vector<double> lower_of(std::span<const double> matrix, std::int64_t n, std::int64_t stride) {
  std::vector<double> lower;
  lower.reserve(n * (n + 1) / 2);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = matrix.begin() + i * stride;
    lower.insert(lower.end(), row, row + i + 1);
  }
  return lower;
}

Eigenpairs eigenpairs(std::span<const double> lower, std::int64_t n) {
  require_buffer();
  auto dense = dense_of(lower, n);
  const lapack_int order = n;
  std::vector<double> values(n);
  std::vector<double> vectors(dense.size());
  std::vector<lapack_int> support(2 * values.size());
  lapack_int found = 0;
  // Row-major lower is column-major upper; column j of the result is contiguous.
  const lapack_int info = LAPACKE_dsyevr(LAPACK_COL_MAJOR,
                                         'V',
                                         'A',
                                         'U',
                                         order,
                                         dense.data(),
                                         order,
                                         0,
                                         0,
                                         0,
                                         0,
                                         0,
                                         &found,
                                         values.data(),
                                         vectors.data(),
                                         order,
                                         support.data());
  require_environment(info == 0 && found == order,
                      "[pca] LAPACKE_dsyevr failed with info = {} and found {} of {} eigenvalues",
                      info,
                      found,
                      n);
  Eigenpairs pairs;
  pairs.values.assign(values.rbegin(), values.rend());
  pairs.vectors.reserve(vectors.size());
  for (std::int64_t j = n; j-- > 0;) {
    const auto column = vectors.begin() + j * n;
    pairs.vectors.insert(pairs.vectors.end(), column, column + n);
  }
  return pairs;
}

void orthonormalize(std::span<const double> lower,
                    std::int64_t k,
                    std::vector<double>& c,
                    std::int64_t c_stride) {
  require_buffer();
  auto factor = dense_of(lower, k);
  const lapack_int order = k;
  // Row-major lower is column-major upper: U = L'. c row-major is c' column-major [c_stride x
  // rows].
  lapack_int info = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', order, factor.data(), order);
  require_environment(info == 0, "[pca] LAPACKE_dpotrf failed with info = {}", info);
  const lapack_int rows = std::ssize(c) / c_stride;
  info = LAPACKE_dtrtrs(
      LAPACK_COL_MAJOR, 'U', 'T', 'N', order, rows, factor.data(), order, c.data(), c_stride);
  require_environment(info == 0, "[pca] LAPACKE_dtrtrs failed with info = {}", info);
}

double identity_error(std::span<const double> lower, std::int64_t k, bool zeros) {
  double error = 0;
  const double* at = lower.data();
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < i; ++j) error = std::max(error, std::abs(*at++));
    const double square = *at++;
    if (!zeros || square != 0) error = std::max(error, std::abs(square - 1));
  }
  return error;
}

}  // namespace dimred::pca

// OpenBLAS starts a thread per core when its library is loaded, which then spin for work. Ours is
// private and used for matrices of n x n only: the linker sends its call to blas_thread_init here
// (-Wl,--wrap), so that the pool never exists and every call runs in the calling thread.
extern "C" {

extern int blas_cpu_number;  // of OpenBLAS; what it reads before it splits work

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the linker's
int __wrap_blas_thread_init() {
  blas_cpu_number = 1;
  return 0;
}
}
