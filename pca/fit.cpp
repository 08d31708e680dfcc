#include "pca/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "checkpoints/atomic_file.h"
#include "checkpoints/npy.h"
#include "pca/dense.h"
#include "pca/exchange.h"
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

/// What can be refused before anything is read.
PassPlan plan_fit(const SnapshotSource& source,
                  const FitOptions& options,
                  const std::filesystem::path& output,
                  const Ranks& ranks) {
  PassPlan plan;
  agree(ranks, [&] {
    check_options(source, options);
    if (ranks.rank == 0) check_output(output, source);
    plan = plan_passes(source,
                       select_kernels(options.kernels),
                       options.components,
                       options.threads > 0 ? options.threads : available_threads(),
                       options.tile_bytes,
                       own_columns(ranks, source.columns()));
  });
  require_same(
      ranks,
      "pca::fit",
      concat(source.rows(), " x ", source.columns(), " snapshots, k = ", options.components));
  return plan;
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

/// One pass that writes P, measured.
Components write_measured(const PassPlan& plan,
                          const std::vector<double>& combinations,
                          std::int64_t header_bytes,
                          const Ranks& ranks,
                          checkpoints::AtomicFile& file,
                          FitReport& report) {
  Components components;
  agree(ranks, [&] { components = write_components(plan, combinations, header_bytes, file); });
  const std::int64_t stride = padded(report.components, plan.kernels->row_unit);
  sum_lower(ranks, components.gram, report.components, stride);
  report.orthonormality_error = identity_error(components.gram, report.components, stride);
  return components;
}

/// The pass that writes P, repeated with corrected combinations when P is not orthonormal enough.
Components write_orthonormal(const PassPlan& plan,
                             std::vector<double> combinations,
                             std::int64_t header_bytes,
                             const Ranks& ranks,
                             checkpoints::AtomicFile& file,
                             FitReport& report) {
  const std::int64_t k = report.components;
  Components components = write_measured(plan, combinations, header_bytes, ranks, file, report);
  if (report.orthonormality_error <= kOrthonormal) return components;
  on_first_rank(ranks, [&] {
    const std::int64_t stride = padded(k, plan.kernels->row_unit);
    orthonormalize(components.gram, k, stride, combinations, padded(k, kComponentUnit));
  });
  share_first(ranks, combinations);
  components = write_measured(plan, combinations, header_bytes, ranks, file, report);
  report.reorthonormalized = true;
  require_environment(report.orthonormality_error <= 1e-6,
                      "pca::fit",
                      "needs |P P' - I| <= 1e-6 after orthonormalisation, measured ",
                      report.orthonormality_error);
  return components;
}

/// First pass: the spectrum of the centred snapshots.
Eigenpairs measure_spectrum(const PassPlan& plan, const Ranks& ranks, FitReport& report) {
  const Stopwatch watch;
  const std::int64_t n = report.rows;
  const std::int64_t stride = padded(n, plan.kernels->row_unit);
  std::vector<double> gram;
  agree(ranks, [&] { gram = gram_matrix(plan); });
  sum_lower(ranks, gram, n, stride);
  Eigenpairs pairs{std::vector<double>(static_cast<std::size_t>(n)),
                   std::vector<double>(static_cast<std::size_t>(n * n))};
  on_first_rank(ranks, [&] { pairs = eigenpairs(gram, n, stride); });
  share_first(ranks, pairs.values);
  share_first(ranks, pairs.vectors);
  check_rank(pairs, n, report.components);
  record_spectrum(pairs, report);
  report.seconds_gram = watch.seconds();
  return pairs;
}

/// Second pass: P in `file`, signs settled. Returns its digests, all ranks'.
std::vector<std::string> write_basis(const PassPlan& plan,
                                     const Eigenpairs& pairs,
                                     std::int64_t header_bytes,
                                     const Ranks& ranks,
                                     checkpoints::AtomicFile& file,
                                     FitReport& report) {
  const Stopwatch watch;
  Components components = write_orthonormal(plan,
                                            combinations_of(pairs, report.rows, report.components),
                                            header_bytes,
                                            ranks,
                                            file,
                                            report);
  const std::vector<bool> flip = rows_to_flip(components.ranges, ranks);
  std::vector<std::string> digests;
  agree(ranks,
        [&] { digests = settle_signs(plan, flip, header_bytes, std::move(components), file); });
  digests = join_lines(ranks, digests);
  report.seconds_components = watch.seconds();
  return digests;
}

}  // namespace

FitReport fit(const SnapshotSource& source,
              const FitOptions& options,
              const std::filesystem::path& output,
              const Ranks& ranks) {
  const Stopwatch total;
  const PassPlan plan = plan_fit(source, options, output, ranks);
  FitReport report;
  report.rows = source.rows();
  report.columns = source.columns();
  report.components = options.components;
  report.kernels = plan.kernels->name;

  const std::string header = checkpoints::npy_header_bytes({report.components, report.columns});
  const auto file = open_output(output, header, report.components * report.columns * 4, ranks);
  const Eigenpairs pairs = measure_spectrum(plan, ranks, report);
  const std::vector<std::string> digests =
      write_basis(plan, pairs, std::ssize(header), ranks, *file, report);
  report.seconds_fsync = commit_output(
      *file, output, sidecar_of(source, plan, report, digests, options.tile_bytes), ranks);
  const std::int64_t passes = report.reorthonormalized ? 3 : 2;
  report.bytes_read =
      source.bytes_verified() + passes * report.rows * plan.own.size() * source.item_bytes();
  report.seconds_total = total.seconds();
  settle_report(report, ranks);
  return report;
}

}  // namespace dimred::pca
