#include "pca/block_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "pca/dense.h"
#include "pca/gram.h"
#include "pca/variance_part.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::pca {
namespace {

/// Above this, P P' - I is more than the rounding of P to float32 (at most 1.2e-7) explains.
constexpr double orthonormal = 2.5e-7;
/// A direction counts above this part of the largest eigenvalue if zeros may stand for a row: a
/// millionth of the largest singular value, well above what its rounding to float32 leaves.
constexpr double worth_a_row = 1e-12;

std::int64_t width_of(const Pass& pass) { return padded(pass.components, component_unit); }

/// Gaussian rows are drawn, not read.
void count_pass(Fit& fit, const Pass& pass) {
  if (!fit.gaussian) fit.basis.report.bytes_read += bytes_of(pass);
}

/// The block's Gram matrix of all ranks' columns, which is added to the fit's.
std::vector<double> measured_gram(Fit& fit, const Pass& pass) {
  auto gram = fit.gram;
  if (gram.empty()) {
    agree(*fit.communicator, [&] { gram = gram_matrix(pass); });
    fit.communicator->sum(gram);
    count_pass(fit, pass);
  }
  if (pass.centred)
    std::ranges::transform(fit.centred_gram, gram, fit.centred_gram.begin(), std::plus<>());
  return gram;
}

/// The rows of P that are not zero, of a block whose Gram matrix has these eigenvalues.
std::int64_t count_rows(const Fit& fit, std::int64_t columns, std::span<const double> values) {
  const auto k = fit.pass.components;
  const bool all_rows = fit.options.blocks == Blocks::whole;
  const auto directions = count_directions(values, all_rows ? 0.0 : worth_a_row);
  require(directions >= k || !all_rows,
          "[pca] needs snapshots that span k = {} directions, received {} snapshots that span only "
          "{} (some may be equal)",
          k,
          values.size(),
          directions);
  return std::min({directions, k, columns});
}

/// Returns C [n x k'']; its first columns, as many as are added to block_components, make the rows
/// of P that are not zero: P = C' W. Column j is v_j / s_j of the block's eigenpairs, whose
/// variances are added to the fit's. For centred snapshots, columns are made to sum to exactly what
/// rounding allows of 0, so that W's column means drop out.
std::vector<double> leading_rows(Fit& fit, std::span<const double> gram, std::int64_t columns) {
  const auto n = fit.pass.rows->rows();
  const auto width = width_of(fit.pass);
  Eigenpairs pairs{std::vector<double>(n), std::vector<double>(n * n)};
  on_rank_0(*fit.communicator, [&] { pairs = eigenpairs(gram, n); });
  broadcast(*fit.communicator, pairs.values);
  broadcast(*fit.communicator, pairs.vectors);
  const auto rows = count_rows(fit, columns, pairs.values);
  fit.basis.header.block_components.push_back(rows);
  std::vector<double> combinations(n * width);
  double total = 0;
  for (const double value : pairs.values) total += std::max(0.0, value);
  fit.total_variance += total;
  for (std::int64_t j = 0; j < rows; ++j) {
    fit.variances[j] += pairs.values[j];
    const double singular = std::sqrt(pairs.values[j]);
    const double* vector = pairs.vectors.data() + j * n;
    double mean = 0;
    for (std::int64_t i = 0; fit.pass.centred && i < n; ++i) {
      mean += vector[i] / n;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      combinations[i * width + j] = (vector[i] - mean) / singular;
    }
  }
  return combinations;
}

/// Changes the combinations of the newest block's rows, which have this Gram matrix, so that P is
/// orthonormal.
void correct(const Fit& fit, std::span<const double> gram, std::vector<double>& combinations) {
  const auto rows = fit.basis.header.block_components.back();
  on_rank_0(*fit.communicator,
            [&] { orthonormalize(gram, rows, combinations, width_of(fit.pass)); });
  broadcast(*fit.communicator, combinations);
}

/// As leading_rows(), of rows that are to keep their order (Gram-Schmidt): row j of P depends on
/// rows 0..j alone.
std::vector<double> ordered_rows(Fit& fit, std::span<const double> gram, std::int64_t columns) {
  const auto width = width_of(fit.pass);
  const auto rows = std::min(fit.pass.components, columns);
  fit.basis.header.block_components.push_back(rows);
  std::vector<double> combinations(fit.pass.rows->rows() * width);
  for (std::int64_t j = 0; j < rows; ++j) combinations[j * width + j] = 1;
  correct(fit, gram, combinations);
  return combinations;
}

/// One pass that writes P.
Components write_once(Fit& fit, const Pass& pass, const std::vector<double>& combinations) {
  Components components;
  agree(*fit.communicator, [&] { components = write_components(pass, combinations, fit.matrix); });
  count_pass(fit, pass);
  fit.communicator->sum(components.gram);
  return components;
}

/// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
Components write_orthonormal(Fit& fit, const Pass& pass, std::vector<double> combinations) {
  auto& header = fit.basis.header;
  const auto rows = header.block_components.back();
  auto components = write_once(fit, pass, combinations);
  auto error = identity_error(components.gram, rows);
  if (error > orthonormal) {
    correct(fit, components.gram, combinations);
    components = write_once(fit, pass, combinations);
    error = identity_error(components.gram, rows);
    header.reorthonormalized = true;
    require_environment(error <= 1e-6,
                        "[pca] needs |P P' - I| <= 1e-6 after the orthonormalisation, received {}",
                        error);
  }
  header.orthonormality_error = std::max(header.orthonormality_error, error);
  return components;
}

}  // namespace

std::vector<std::string> fit_block(Fit& fit, const layout::ColumnRange& columns) {
  const Stopwatch watch;
  const auto pass = within(fit.pass, columns);
  const auto gram = measured_gram(fit, pass);
  auto combinations = fit.gaussian ? ordered_rows(fit, gram, columns.size())
                                   : leading_rows(fit, gram, columns.size());
  const auto seconds = watch.seconds();
  const auto components = write_orthonormal(fit, pass, std::move(combinations));
  const auto flip = rows_to_flip(components.extremes, *fit.communicator);
  std::vector<std::string> digests;
  agree(*fit.communicator, [&] { digests = fix_signs(pass, flip, components, fit.matrix); });
  fit.basis.report.seconds_gram += seconds;
  fit.basis.report.seconds_components += watch.seconds() - seconds;
  return digests;
}

}  // namespace dimred::pca
