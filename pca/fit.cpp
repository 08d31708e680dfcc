#include "pca/fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "checkpoints/atomic_file.h"
#include "checkpoints/npy.h"
#include "pca/dense.h"
#include "pca/ordered_sum.h"
#include "pca/output.h"
#include "pca/passes.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "support/threads.h"

namespace dimred::pca {
namespace {

/// Above this, P P' - I is more than the rounding of P to float32 (at most 1.2e-7) explains.
constexpr double kOrthonormal = 2.5e-7;

void check_options(const SnapshotSource& source, const FitOptions& options) {
  const std::int64_t n = source.rows();
  const std::int64_t k = options.components;
  require(k >= 1, "pca::fit", "needs k >= 1, received k = ", k);
  require(n - 1 >= k, "pca::fit", "needs n - 1 >= k, received n = ", n, ", k = ", k);
  require(options.threads >= 0, "pca::fit", "needs threads >= 0, received ", options.threads);
  require(options.tile_bytes >= 1 << 20,
          "pca::fit",
          "needs tile_bytes >= 1048576, received ",
          options.tile_bytes);
}

void reduce_if(const Reduce& reduce, std::vector<double>& values) {
  if (reduce) reduce(values);
}

/// C [n x k'']: column j = v_j / s_j, so that P = C' W. Columns are made to sum to exactly what
/// rounding allows of 0, so that W's column means drop out.
std::vector<double> combinations_of(const Eigenpairs& pairs, std::int64_t n, std::int64_t k) {
  const std::int64_t width = padded(k, kComponentUnit);
  std::vector<double> c(static_cast<std::size_t>(n * width));
  for (std::int64_t j = 0; j < k; ++j) {
    const double singular = std::sqrt(pairs.values[static_cast<std::size_t>(j)]);
    const double* vector = pairs.vectors.data() + j * n;
    double mean = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += vector[i] / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      c[static_cast<std::size_t>(i * width + j)] = (vector[i] - mean) / singular;
    }
  }
  return c;
}

void check_rank(const Eigenpairs& pairs, std::int64_t n, std::int64_t k) {
  const double floor = static_cast<double>(n) * std::numeric_limits<double>::epsilon() *
                       std::max(0.0, pairs.values.front());
  const auto directions =
      std::ranges::count_if(pairs.values, [floor](double v) { return v > floor; });
  require(directions >= k,
          "pca::fit",
          "needs snapshots that span k = ",
          k,
          " directions, received ",
          n,
          " that span ",
          directions,
          " (are some equal?)");
}

/// Rows whose entry of largest magnitude, over all ranks, is negative. The maximum of keys
/// (magnitude, then sign) is found bit by bit, because ranks can only sum: 32 sums of k numbers.
std::vector<bool> rows_to_flip(const std::vector<RowRange>& ranges, const Reduce& reduce) {
  std::vector<std::uint32_t> keys;
  for (const RowRange& range : ranges) {
    const float magnitude = range.negative() ? -range.low : range.high;
    keys.push_back(std::bit_cast<std::uint32_t>(magnitude) * 2 + (range.negative() ? 0 : 1));
  }
  std::vector<std::uint32_t> best(keys.size());
  for (std::uint32_t bit = 1U << 31; bit != 0; bit /= 2) {
    std::vector<double> reached(keys.size());
    for (std::size_t j = 0; j < keys.size(); ++j) reached[j] = keys[j] >= (best[j] | bit) ? 1 : 0;
    reduce_if(reduce, reached);
    for (std::size_t j = 0; j < keys.size(); ++j) best[j] |= reached[j] > 0 ? bit : 0;
  }
  std::vector<bool> flip(best.size());
  for (std::size_t j = 0; j < best.size(); ++j) flip[j] = best[j] % 2 == 0;
  return flip;
}

void record_spectrum(const Eigenpairs& pairs, FitReport& report) {
  double total = 0;
  for (const double value : pairs.values) total += std::max(0.0, value);
  for (std::int64_t j = 0; j < report.components; ++j) {
    const double value = pairs.values[static_cast<std::size_t>(j)];
    report.singular_values.push_back(std::sqrt(value));
    report.explained_variance_ratio.push_back(value / total);
  }
  report.random_walk_ratio = random_walk_ratio(report.rows, report.components);
}

/// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
Components write_orthonormal(const PassPlan& plan,
                             std::vector<double> combinations,
                             std::int64_t header_bytes,
                             const Reduce& reduce,
                             checkpoints::AtomicFile& file,
                             FitReport& report) {
  const std::int64_t k = report.components;
  const std::int64_t stride = padded(k, plan.kernels->row_unit);
  Components components = write_components(plan, combinations, header_bytes, file);
  reduce_if(reduce, components.gram);
  report.orthonormality_error = identity_error(components.gram, k, stride);
  if (report.orthonormality_error <= kOrthonormal) return components;
  orthonormalize(components.gram, k, stride, combinations, padded(k, kComponentUnit));
  components = write_components(plan, combinations, header_bytes, file);
  reduce_if(reduce, components.gram);
  report.orthonormality_error = identity_error(components.gram, k, stride);
  report.reorthonormalized = true;
  require_environment(report.orthonormality_error <= 1e-6,
                      "pca::fit",
                      "needs |P P' - I| <= 1e-6 after orthonormalisation, measured ",
                      report.orthonormality_error);
  return components;
}

/// First pass: the spectrum of the centred snapshots.
Eigenpairs measure_spectrum(const PassPlan& plan, const Reduce& reduce, FitReport& report) {
  const Stopwatch watch;
  std::vector<double> gram = gram_matrix(plan);
  reduce_if(reduce, gram);
  Eigenpairs pairs = eigenpairs(gram, report.rows, padded(report.rows, plan.kernels->row_unit));
  check_rank(pairs, report.rows, report.components);
  record_spectrum(pairs, report);
  report.seconds_gram = watch.seconds();
  return pairs;
}

/// Second pass: P in `file`, signs settled. Returns its digests.
std::vector<std::string> write_basis(const PassPlan& plan,
                                     const Eigenpairs& pairs,
                                     const Reduce& reduce,
                                     checkpoints::AtomicFile& file,
                                     FitReport& report) {
  const Stopwatch watch;
  const std::string header = checkpoints::npy_header_bytes({report.components, report.columns});
  file.append(std::as_bytes(std::span(header)));
  const std::int64_t offset = std::ssize(header);
  Components components = write_orthonormal(
      plan, combinations_of(pairs, report.rows, report.components), offset, reduce, file, report);
  const std::vector<bool> flip = rows_to_flip(components.ranges, reduce);
  auto digests = settle_signs(plan, flip, offset, std::move(components), file);
  report.seconds_components = watch.seconds();
  return digests;
}

}  // namespace

FitReport fit(const SnapshotSource& source,
              const FitOptions& options,
              const std::filesystem::path& output,
              const Reduce& reduce) {
  const Stopwatch total;
  check_options(source, options);
  check_output(output, source);
  const std::int64_t threads = options.threads > 0 ? options.threads : available_threads();
  const PassPlan plan = plan_passes(
      source, select_kernels(options.kernels), options.components, threads, options.tile_bytes);
  FitReport report;
  report.rows = source.rows();
  report.columns = source.columns();
  report.components = options.components;
  report.kernels = plan.kernels->name;

  checkpoints::AtomicFile file(output);
  file.reserve(report.components * report.columns * 4);
  const Eigenpairs pairs = measure_spectrum(plan, reduce, report);
  const std::vector<std::string> digests = write_basis(plan, pairs, reduce, file, report);
  const std::int64_t passes = report.reorthonormalized ? 3 : 2;
  report.bytes_read =
      source.bytes_verified() + passes * report.rows * report.columns * source.item_bytes();
  report.seconds_fsync =
      commit_output(file, output, sidecar_of(source, plan, report, digests, options.tile_bytes));
  report.seconds_total = total.seconds();
  return report;
}

}  // namespace dimred::pca
