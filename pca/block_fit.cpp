#include "pca/block_fit.h"

#include <algorithm>
#include <cmath>
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
constexpr double kOrthonormal = 2.5e-7;
/// Where zeros may stand for a row, a direction counts above this part of the largest eigenvalue:
/// a millionth of the largest singular value, well above what its rounding to float32 leaves.
constexpr double kWorthARow = 1e-12;

/// One block's work in progress.
class Block {
 public:
  Block(const BlockPlan& shared, const layout::ColumnRange& columns)
      : shared_(shared),
        pass_(within(shared_.pass, columns)),
        columns_(columns),
        n_(pass_.rows->rows()),
        width_(padded(pass_.components, kComponentUnit)) {
    fit_.variances.resize(pass_.components);
  }

  BlockFit run() {
    const Stopwatch watch;
    measure_gram();
    auto combinations = shared_.kind == Kind::random ? orthonormal_combinations()
                                                     : leading_combinations(leading_pairs());
    fit_.seconds_gram = watch.seconds();
    const auto components = write_orthonormal(std::move(combinations));
    const auto flip = rows_to_flip(components.ranges, *shared_.communicator);
    agree(*shared_.communicator,
          [&] { fit_.digests = fix_signs(pass_, flip, components.pieces, shared_.matrix); });
    fit_.seconds_components = watch.seconds() - fit_.seconds_gram;
    return std::move(fit_);
  }

 private:
  void measure_gram() {
    if (!shared_.gram.empty()) {
      fit_.gram.assign(shared_.gram.begin(), shared_.gram.end());
      return;
    }
    agree(*shared_.communicator, [&] { fit_.gram = gram_matrix(pass_); });
    shared_.communicator->sum(fit_.gram);
    count_pass();
  }

  void count_pass() { fit_.bytes_read += n_ * pass_.own.size() * pass_.rows->info().item_bytes; }

  /// The block's eigenpairs; sets the number of rows and the variances.
  Eigenpairs leading_pairs() {
    Eigenpairs pairs{std::vector<double>(n_), std::vector<double>(n_ * n_)};
    on_rank_0(*shared_.communicator, [&] { pairs = eigenpairs(fit_.gram, n_); });
    broadcast(*shared_.communicator, pairs.values);
    broadcast(*shared_.communicator, pairs.vectors);
    count_rows(pairs.values);
    for (const double value : pairs.values) fit_.total += std::max(0.0, value);
    std::copy_n(pairs.values.begin(), fit_.rows, fit_.variances.begin());
    return pairs;
  }

  void count_rows(const std::vector<double>& values) {
    const auto directions = count_directions(values, shared_.all_rows ? 0.0 : kWorthARow);
    require(directions >= pass_.components || !shared_.all_rows,
            "[pca::fit] needs snapshots that span k = {} directions, received {} that span {} (are "
            "some equal?)",
            pass_.components,
            n_,
            directions);
    fit_.rows = std::min({directions, pass_.components, columns_.size()});
  }

  /// C [n x k'']: column j = v_j / s_j, so that P = C' W. For centred snapshots, columns are made
  /// to sum to exactly what rounding allows of 0, so that W's column means drop out.
  std::vector<double> leading_combinations(const Eigenpairs& pairs) const {
    std::vector<double> c(n_ * width_);
    for (std::int64_t j = 0; j < fit_.rows; ++j) {
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
    fit_.rows = std::min(pass_.components, columns_.size());
    std::vector<double> c(n_ * width_);
    for (std::int64_t j = 0; j < fit_.rows; ++j) c[j * width_ + j] = 1;
    on_rank_0(*shared_.communicator, [&] { orthonormalize(fit_.gram, fit_.rows, c, width_); });
    broadcast(*shared_.communicator, c);
    return c;
  }

  /// One pass that writes P, measured.
  Components write_measured(const std::vector<double>& combinations) {
    Components components;
    agree(*shared_.communicator,
          [&] { components = write_components(pass_, combinations, shared_.matrix); });
    count_pass();
    shared_.communicator->sum(components.gram);
    fit_.orthonormality_error = identity_error(components.gram, fit_.rows);
    return components;
  }

  /// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
  Components write_orthonormal(std::vector<double> combinations) {
    auto components = write_measured(combinations);
    if (fit_.orthonormality_error <= kOrthonormal) return components;
    on_rank_0(*shared_.communicator,
              [&] { orthonormalize(components.gram, fit_.rows, combinations, width_); });
    broadcast(*shared_.communicator, combinations);
    components = write_measured(combinations);
    fit_.reorthonormalized = true;
    require_environment(fit_.orthonormality_error <= 1e-6,
                        "[pca::fit] needs |P P' - I| <= 1e-6 after orthonormalisation, measured {}",
                        fit_.orthonormality_error);
    return components;
  }

  BlockPlan shared_;
  Pass pass_;
  layout::ColumnRange columns_;
  std::int64_t n_;
  std::int64_t width_;  // of combinations
  BlockFit fit_;
};

}  // namespace

BlockFit fit_block(const BlockPlan& plan, const layout::ColumnRange& columns) {
  return Block(plan, columns).run();
}

}  // namespace dimred::pca
