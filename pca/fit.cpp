#include "pca/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoints/atomic_file.h"
#include "checkpoints/npy.h"
#include "pca/block_fit.h"
#include "pca/exchange.h"
#include "pca/gram_file.h"
#include "pca/output.h"
#include "pca/problem.h"
#include "pca/shuffle.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::pca {
namespace {

/// All blocks of one fit, each with its spectrum.
class Fit {
 public:
  Fit(const Problem& problem, const FitOptions& options, const Ranks& ranks)
      : problem_(problem),
        options_(options),
        ranks_(ranks),
        variances_(static_cast<std::size_t>(problem.plan.components)),
        gram_(problem.snapshots->rows()) {}

  /// P in `file`; returns its digests, all ranks'.
  std::vector<std::string> write(std::int64_t header_bytes,
                                 checkpoints::AtomicFile& file,
                                 FitReport& report) {
    const bool whole = options_.blocks == Blocks::whole;
    const BlockPlan shared{problem_.plan, options_.kind, whole, header_bytes, ranks_, file};
    std::vector<std::string> digests;
    for (const layout::ColumnRange& block : problem_.blocks) {
      BlockFit part = fit_block(shared, block);
      take(part, report);
      digests = std::move(part.digests);
    }
    require(std::ranges::any_of(report.block_components, [](auto rows) { return rows > 0; }),
            "pca::fit",
            "needs snapshots that differ, received ",
            report.rows,
            " that span no direction in any layer");
    const Stopwatch watch;
    const bool shuffled = options_.kind == Kind::shuffled;
    if (shuffled) {
      shuffle_columns(problem_.plan, problem_.layers, options_.seed, header_bytes, ranks_, file);
    }
    if (shuffled || problem_.blocks.size() > 1) {
      agree(ranks_, [&] { digests = digests_of_file(problem_.plan, header_bytes, file); });
    }
    digests = join_lines(ranks_, digests);
    report.seconds_components += watch.seconds();
    return digests;
  }

  void record_spectrum(FitReport& report) const {
    for (const double value : variances_) {
      report.singular_values.push_back(std::sqrt(value));
      report.explained_variance_ratio.push_back(total_ > 0 ? value / total_ : 0);
    }
    report.random_walk_ratio = problem_.plan.centred
                                   ? random_walk_ratio(report.rows, report.components)
                                   : std::vector<double>(variances_.size());
  }

  /// The Gram matrix of the centred snapshots; by one more pass where the blocks' is another.
  void write_gram(FitReport& report) {
    if (options_.gram.empty()) return;
    if (!problem_.plan.centred) {
      std::vector<double> lower;
      agree(ranks_, [&] { lower = gram_matrix(problem_.centred); });
      const std::int64_t stride = padded(report.rows, problem_.centred.kernels->row_unit);
      sum_lower(ranks_, lower, report.rows, stride);
      gram_.add(lower, stride);
      report.bytes_read +=
          report.rows * problem_.centred.own.size() * problem_.snapshots->item_bytes();
    }
    on_first_rank(ranks_, [&] { gram_.write(options_.gram); });
  }

 private:
  void take(const BlockFit& part, FitReport& report) {
    for (std::size_t j = 0; j < variances_.size(); ++j) variances_[j] += part.variances[j];
    total_ += part.total;
    if (!options_.gram.empty() && problem_.plan.centred) {
      gram_.add(part.gram, padded(report.rows, problem_.plan.kernels->row_unit));
    }
    report.block_components.push_back(part.rows);
    report.orthonormality_error = std::max(report.orthonormality_error, part.orthonormality_error);
    report.reorthonormalized |= part.reorthonormalized;
    if (!problem_.gaussian) report.bytes_read += part.bytes_read;
    report.seconds_gram += part.seconds_gram;
    report.seconds_components += part.seconds_components;
  }

  const Problem& problem_;
  const FitOptions& options_;
  const Ranks& ranks_;
  std::vector<double> variances_;  // [k]
  double total_ = 0;
  GramFile gram_;
};

}  // namespace

FitReport fit(const SnapshotSource& source,
              const FitOptions& options,
              const std::filesystem::path& output,
              const Ranks& ranks) {
  const Stopwatch total;
  const Problem problem = plan_fit(source, options, output, ranks);
  FitReport report;
  report.kind = options.kind;
  report.seed = options.seed;
  report.rows = problem.snapshots->rows();
  report.columns = source.columns();
  report.components = problem.plan.components;
  report.kernels = problem.plan.device ? "cuda" : problem.plan.kernels->name;
  report.bytes_read = source.bytes_verified();

  const std::string header = checkpoints::npy_header_bytes({report.components, report.columns});
  const auto file = open_output(output, header, report.components * report.columns * 4, ranks);
  Fit work(problem, options, ranks);
  std::vector<std::string> digests = work.write(std::ssize(header), *file, report);
  work.record_spectrum(report);
  work.write_gram(report);
  report.seconds_fsync =
      commit_output(*file, output, sidecar_of(problem, options, report, std::move(digests)), ranks);
  report.seconds_total = total.seconds();
  settle_report(report, ranks);
  return report;
}

FitReport fit_snapshots(const std::filesystem::path& path,
                        const FitOptions& options,
                        const std::filesystem::path& output,
                        const Ranks& ranks) {
  const std::unique_ptr<SnapshotSource> source = open_source(path, ranks);
  return fit(*source, options, output, ranks);
}

}  // namespace dimred::pca
