#include "pca/block_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
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
/// Where zeros may stand for a row, a direction counts above this part of the largest eigenvalue:
/// a millionth of the largest singular value, well above what its rounding to float32 leaves.
constexpr double worth_a_row = 1e-12;

/// One block's work in progress.
class FittedBlock {
 public:
  FittedBlock(Fit& fit, const layout::ColumnRange& columns)
      : fit_(fit),
        communicator_(*fit.communicator),
        pass_(within(fit.pass, columns)),
        columns_(columns),
        n_(pass_.rows->rows()),
        width_(padded(pass_.components, component_unit)) {}

  std::vector<std::string> run() {
    const Stopwatch watch;
    measure_gram();
    auto combinations =
        fit_.gaussian ? orthonormal_combinations() : leading_combinations(leading_pairs());
    const auto seconds = watch.seconds();
    const auto components = write_orthonormal(std::move(combinations));
    const auto flip = rows_to_flip(components.ranges, communicator_);
    std::vector<std::string> digests;
    agree(communicator_, [&] { digests = fix_signs(pass_, flip, components.pieces, fit_.matrix); });
    fit_.basis.header.block_components.push_back(rows_);
    fit_.basis.report.seconds_gram += seconds;
    fit_.basis.report.seconds_components += watch.seconds() - seconds;
    return digests;
  }

 private:
  void measure_gram() {
    gram_ = fit_.gram;
    if (gram_.empty()) {
      agree(communicator_, [&] { gram_ = gram_matrix(pass_); });
      communicator_.sum(gram_);
      count_pass();
    }
    if (pass_.centred)
      std::ranges::transform(fit_.centred_gram, gram_, fit_.centred_gram.begin(), std::plus<>());
  }

  /// Gaussian rows are drawn, not read.
  void count_pass() {
    if (!fit_.gaussian) fit_.basis.report.bytes_read += bytes_of(pass_);
  }

  /// The block's eigenpairs; sets the number of rows, adds the variances.
  Eigenpairs leading_pairs() {
    Eigenpairs pairs{std::vector<double>(n_), std::vector<double>(n_ * n_)};
    on_rank_0(communicator_, [&] { pairs = eigenpairs(gram_, n_); });
    broadcast(communicator_, pairs.values);
    broadcast(communicator_, pairs.vectors);
    count_rows(pairs.values);
    double total = 0;
    for (const double value : pairs.values) total += std::max(0.0, value);
    fit_.total_variance += total;
    for (std::int64_t j = 0; j < rows_; ++j) fit_.variances[j] += pairs.values[j];
    return pairs;
  }

  void count_rows(const std::vector<double>& values) {
    const bool all_rows = fit_.options.blocks == Blocks::whole;
    const auto directions = count_directions(values, all_rows ? 0.0 : worth_a_row);
    require(directions >= pass_.components || !all_rows,
            "[pca::fit] needs snapshots that span k = {} directions, received {} that span {} (are "
            "some equal?)",
            pass_.components,
            n_,
            directions);
    rows_ = std::min({directions, pass_.components, columns_.size()});
  }

  /// C [n x k'']: column j = v_j / s_j, so that P = C' W. For centred snapshots, columns are made
  /// to sum to exactly what rounding allows of 0, so that W's column means drop out.
  std::vector<double> leading_combinations(const Eigenpairs& pairs) const {
    std::vector<double> c(n_ * width_);
    for (std::int64_t j = 0; j < rows_; ++j) {
      const double singular = std::sqrt(pairs.values[j]);
      const double* vector = pairs.vectors.data() + j * n_;
      double mean = 0;
      for (std::int64_t i = 0; pass_.centred && i < n_; ++i) {
        mean += vector[i] / n_;
      }
      for (std::int64_t i = 0; i < n_; ++i) {
        c[i * width_ + j] = (vector[i] - mean) / singular;
      }
    }
    return c;
  }

  /// C of rows that are to keep their order (Gram-Schmidt): row j of P depends on rows 0..j alone.
  std::vector<double> orthonormal_combinations() {
    rows_ = std::min(pass_.components, columns_.size());
    std::vector<double> c(n_ * width_);
    for (std::int64_t j = 0; j < rows_; ++j) c[j * width_ + j] = 1;
    on_rank_0(communicator_, [&] { orthonormalize(gram_, rows_, c, width_); });
    broadcast(communicator_, c);
    return c;
  }

  /// One pass that writes P, measured.
  Components write_measured(const std::vector<double>& combinations) {
    Components components;
    agree(communicator_, [&] { components = write_components(pass_, combinations, fit_.matrix); });
    count_pass();
    communicator_.sum(components.gram);
    error_ = identity_error(components.gram, rows_);
    return components;
  }

  /// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
  Components write_orthonormal(std::vector<double> combinations) {
    auto components = write_measured(combinations);
    if (error_ > orthonormal) components = write_again(components, std::move(combinations));
    auto& error = fit_.basis.header.orthonormality_error;
    error = std::max(error, error_);
    return components;
  }

  Components write_again(const Components& first, std::vector<double> combinations) {
    on_rank_0(communicator_, [&] { orthonormalize(first.gram, rows_, combinations, width_); });
    broadcast(communicator_, combinations);
    auto components = write_measured(combinations);
    fit_.basis.header.reorthonormalized = true;
    require_environment(error_ <= 1e-6,
                        "[pca::fit] needs |P P' - I| <= 1e-6 after orthonormalisation, measured {}",
                        error_);
    return components;
  }

  Fit& fit_;
  Communicator& communicator_;
  Pass pass_;
  layout::ColumnRange columns_;
  std::int64_t n_;
  std::int64_t width_;        // of combinations
  std::int64_t rows_ = 0;     // of k that are not zero, the first ones
  std::vector<double> gram_;  // of all ranks' columns, lower triangle
  double error_ = 0;          // max |P P' - I| of what was written last
};

}  // namespace

std::vector<std::string> fit_block(Fit& fit, const layout::ColumnRange& columns) {
  return FittedBlock(fit, columns).run();
}

}  // namespace dimred::pca
