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

/// C [n x k'']; its first `rows` columns make the rows of P that are not zero: P = C' W.
struct RowsOfBlock {
  std::vector<double> combinations;
  std::int64_t rows = 0;
};

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

/// Column j of C is v_j / s_j of the block's eigenpairs, whose variances are added to the fit's.
/// For centred snapshots, columns are made to sum to exactly what rounding allows of 0, so that W's
/// column means drop out.
RowsOfBlock leading_rows(Fit& fit, std::span<const double> gram, std::int64_t columns) {
  const auto n = fit.pass.rows->rows();
  const auto width = width_of(fit.pass);
  Eigenpairs pairs{std::vector<double>(n), std::vector<double>(n * n)};
  on_rank_0(*fit.communicator, [&] { pairs = eigenpairs(gram, n); });
  broadcast(*fit.communicator, pairs.values);
  broadcast(*fit.communicator, pairs.vectors);
  RowsOfBlock block{std::vector<double>(n * width), count_rows(fit, columns, pairs.values)};
  double total = 0;
  for (const double value : pairs.values) total += std::max(0.0, value);
  fit.total_variance += total;
  for (std::int64_t j = 0; j < block.rows; ++j) {
    fit.variances[j] += pairs.values[j];
    const double singular = std::sqrt(pairs.values[j]);
    const double* vector = pairs.vectors.data() + j * n;
    double mean = 0;
    for (std::int64_t i = 0; fit.pass.centred && i < n; ++i) {
      mean += vector[i] / n;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      block.combinations[i * width + j] = (vector[i] - mean) / singular;
    }
  }
  return block;
}

/// Changes the combinations of rows with this Gram matrix so that P is orthonormal.
void correct(const Fit& fit, std::span<const double> gram, RowsOfBlock& block) {
  on_rank_0(*fit.communicator,
            [&] { orthonormalize(gram, block.rows, block.combinations, width_of(fit.pass)); });
  broadcast(*fit.communicator, block.combinations);
}

/// Rows that are to keep their order (Gram-Schmidt): row j of P depends on rows 0..j alone.
RowsOfBlock ordered_rows(const Fit& fit, std::span<const double> gram, std::int64_t columns) {
  const auto width = width_of(fit.pass);
  RowsOfBlock block{std::vector<double>(fit.pass.rows->rows() * width),
                    std::min(fit.pass.components, columns)};
  for (std::int64_t j = 0; j < block.rows; ++j) block.combinations[j * width + j] = 1;
  correct(fit, gram, block);
  return block;
}

/// One pass that writes P.
Components write_once(Fit& fit, const Pass& pass, const RowsOfBlock& block) {
  Components components;
  agree(*fit.communicator,
        [&] { components = write_components(pass, block.combinations, fit.matrix); });
  count_pass(fit, pass);
  fit.communicator->sum(components.gram);
  return components;
}

/// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
Components write_orthonormal(Fit& fit, const Pass& pass, RowsOfBlock block) {
  auto components = write_once(fit, pass, block);
  auto error = identity_error(components.gram, block.rows);
  auto& header = fit.basis.header;
  if (error > orthonormal) {
    correct(fit, components.gram, block);
    components = write_once(fit, pass, block);
    error = identity_error(components.gram, block.rows);
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
  auto block = fit.gaussian ? ordered_rows(fit, gram, columns.size())
                            : leading_rows(fit, gram, columns.size());
  fit.basis.header.block_components.push_back(block.rows);
  const auto seconds = watch.seconds();
  const auto components = write_orthonormal(fit, pass, std::move(block));
  const auto flip = rows_to_flip(components.extremes, *fit.communicator);
  std::vector<std::string> digests;
  agree(*fit.communicator, [&] { digests = fix_signs(pass, flip, components.pieces, fit.matrix); });
  fit.basis.report.seconds_gram += seconds;
  fit.basis.report.seconds_components += watch.seconds() - seconds;
  return digests;
}

}  // namespace dimred::pca
