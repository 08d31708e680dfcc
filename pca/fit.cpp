#include "pca/fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "checkpoints/npy.h"
#include "pca/block_fit.h"
#include "pca/dense.h"
#include "pca/gaussian_source.h"
#include "pca/gram.h"
#include "pca/output.h"
#include "pca/shuffle.h"
#include "pca/variance_part.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/stopwatch.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

/// The task of a fit, determined before anything is read.
struct Problem {
  std::unique_ptr<SnapshotSource> some;       // only where a range leaves some snapshots out
  std::unique_ptr<SnapshotSource> gaussian;   // only of kind random
  const SnapshotSource* snapshots = nullptr;  // those in range
  Pass pass;                                  // over the rows that are combined, all columns
  Pass centred;                               // over the snapshots
  std::vector<layout::ColumnRange> layers;    // columns of the layout's entries; empty: no layout
  std::vector<layout::ColumnRange> blocks;    // of P
  std::vector<double> gram;                   // of the pass's rows, where k follows from it
};

bool is_centred(Kind kind) { return kind == Kind::pca || kind == Kind::shuffled; }

/// k, where the options leave it to the kind or to the snapshots.
std::int64_t components_of(const FitOptions& options, std::int64_t n) {
  if (options.kind == Kind::span && options.components == 0) return n;
  if (options.variance > 0) return n - 1;  // at most: see choose_components
  const bool fewer = options.fewer_allowed && is_centred(options.kind);
  return fewer ? std::min(options.components, n - 1) : options.components;
}

void check_components(const FitOptions& options, std::int64_t n, std::int64_t columns) {
  const auto k = components_of(options, n);
  require(n > 1 || !options.fewer_allowed || !is_centred(options.kind),
          "[pca::fit] needs 2 or more snapshots (dimred stage1 --snapshots_per_epoch), received {}",
          n);
  require(k >= 1, "[pca::fit] needs k >= 1, received k = {}", k);
  switch (options.kind) {
    case Kind::pca:
    case Kind::shuffled:
      return require(n - 1 >= k,
                     "[pca::fit] needs n - 1 >= k, received n = {}, k = {}: at most {} components",
                     n,
                     k,
                     n - 1);
    case Kind::span:
      return require(n >= k, "[pca::fit] needs n >= k, received n = {}, k = {}", n, k);
    case Kind::random:
      return require(columns >= k, "[pca::fit] needs M >= k, received M = {}, k = {}", columns, k);
  }
}

void check_options(const FitOptions& options, const std::vector<layout::ColumnRange>& layers) {
  require(options.threads >= 0, "[pca::fit] needs threads >= 0, received {}", options.threads);
  require(options.variance >= 0 && options.variance < 1,
          "[pca::fit] needs a part of the variance in (0, 1), received {}",
          options.variance);
  require(
      options.variance == 0 || (is_centred(options.kind) && options.blocks == Blocks::whole),
      "[pca::fit] a part of the variance is of kind pca or shuffled in blocks = whole, received "
      "{} in {}",
      name_of(options.kind),
      options.blocks == Blocks::whole ? "whole" : "layers");
  require(options.tile_bytes >= 1 << 20,
          "[pca::fit] needs tile_bytes >= 1048576, received {}",
          options.tile_bytes);
  require(!layers.empty() || (options.blocks == Blocks::whole && options.kind != Kind::shuffled),
          "[pca::fit] {} needs snapshots that know their layers (.h5 or safetensors), received "
          "none with a layout",
          options.blocks == Blocks::whole ? "kind shuffled" : "blocks = layers");
}

/// Columns of the parameters that the rows carry a table of, in file order; empty without one.
std::vector<layout::ColumnRange> layers_of(const SourceInfo& source) {
  std::vector<layout::ColumnRange> layers;
  if (source.layout_json.empty()) return layers;
  const auto layout = layout::layout_from_json(source.layout_json);
  for (const auto& entry : layout.entries) {
    if (entry.size == 0) continue;
    layers.push_back({entry.file_offset, entry.file_offset + entry.size});
  }
  require_environment(layout.file_size == source.columns,
                      "[pca::fit] snapshots of {} values carry a table of {}",
                      source.columns,
                      layout.file_size);
  return layers;
}

Pass pass_of(const SnapshotSource& rows,
             std::int64_t components,
             const FitOptions& options,
             Communicator& communicator) {
  return pass_over(rows,
                   select_kernels(options.kernels),
                   components,
                   options.threads > 0 ? options.threads : available_threads(),
                   options.tile_bytes,
                   own_range(communicator.rank(), communicator.size(), rows.columns()));
}

/// The digests of all ranks' blocks, rank 0's first.
std::vector<std::string> gathered(Communicator& communicator, const std::vector<std::string>& own) {
  std::vector<std::string> all;
  for (const auto& text : communicator.gather(nlohmann::json(own).dump())) {
    const auto part = nlohmann::json::parse(text).get<std::vector<std::string>>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// The same on every rank, or their sums are of different problems.
std::string problem_text(const Problem& problem, const FitOptions& options) {
  return formatted(
      "{} x {} snapshots, k = {}, variance {}, kind {}, blocks {}, seed {}, from {} to {} skip "
      "{}{}",
      problem.snapshots->rows(),
      problem.snapshots->columns(),
      problem.pass.components,
      options.variance,
      name_of(options.kind),
      problem.blocks.size(),
      options.seed,
      options.snapshots.from,
      options.snapshots.to,
      options.snapshots.skip,
      options.gram.empty() ? "" : ", with Gram matrix");
}

/// Throws what fit() refuses, on every rank alike. output: empty for a matrix in memory.
Problem plan_fit(const SnapshotSource& source,
                 const FitOptions& options,
                 const fs::path& output,
                 Communicator& communicator) {
  Problem problem;
  agree(communicator, [&] {
    problem.snapshots = &source;
    if (options.snapshots != SnapshotRange{}) {
      problem.some = selected(source, options.snapshots);
      problem.snapshots = problem.some.get();
    }
    problem.layers = layers_of(source.info());
    check_options(options, problem.layers);
    check_components(options, problem.snapshots->rows(), source.columns());
    if (communicator.rank() == 0 && !output.empty()) check_output(output, options.gram, source);
    const auto k = components_of(options, problem.snapshots->rows());
    if (options.kind == Kind::random) {
      problem.gaussian = std::make_unique<GaussianSource>(k, source.columns(), options.seed);
    }
    problem.centred = pass_of(*problem.snapshots, k, options, communicator);
    problem.pass =
        problem.gaussian ? pass_of(*problem.gaussian, k, options, communicator) : problem.centred;
    problem.pass.centred = is_centred(options.kind);
    if (!problem.gaussian) problem.pass.mean = options.mean;
    problem.blocks = options.blocks == Blocks::layers
                         ? problem.layers
                         : std::vector<layout::ColumnRange>{{0, source.columns()}};
  });
  require_agreement(communicator, {{"the fit", problem_text(problem, options)}});
  return problem;
}

/// k of the part of the variance that is asked for, by the first pass of the fit.
void choose_components(Problem& problem,
                       const FitOptions& options,
                       Communicator& communicator,
                       FitReport& report) {
  const Stopwatch watch;
  const auto n = problem.snapshots->rows();
  agree(communicator, [&] { problem.gram = gram_matrix(problem.pass); });
  communicator.sum(problem.gram);
  report.bytes_read += n * problem.pass.own.size() * problem.snapshots->info().item_bytes;
  const auto chosen = on_rank_0(communicator, [&] {
    return count_for_part(eigenpairs(problem.gram, n).values, options.variance);
  });
  const auto k = std::min<std::int64_t>(chosen, report.columns);
  problem.centred = problem.pass = pass_of(*problem.snapshots, k, options, communicator);
  report.seconds_gram += watch.seconds();
}

Sidecar sidecar_of(const Problem& problem,
                   const FitOptions& options,
                   const FitReport& report,
                   std::vector<std::string> digests) {
  const bool snapshots = !problem.gaussian;
  const auto& source = problem.snapshots->info();
  const bool layers = options.blocks == Blocks::layers;
  return {.kind = name_of(options.kind),
          .blocks = layers ? problem.blocks : std::vector<layout::ColumnRange>{},
          .block_components = layers ? report.block_components : std::vector<std::int64_t>{},
          .seed = needs_seed(options.kind) ? std::optional(options.seed) : std::nullopt,
          .snapshots = snapshots ? report.rows : 0,
          .parameters = report.columns,
          .components = report.components,
          .singular_values = report.singular_values,
          .explained_variance_ratio = report.explained_variance_ratio,
          .random_walk_ratio = report.random_walk_ratio,
          .orthonormality_error = report.orthonormality_error,
          .reorthonormalized = report.reorthonormalized,
          .snapshot_names = snapshots ? source.names : std::vector<std::string>{},
          .layout_hash = source.layout_hash,
          .layout_json = source.layout_json,
          .digest_columns = kDigestColumns,
          .digests = std::move(digests),
          .threads = problem.pass.threads,
          .tile_bytes = options.tile_bytes,
          .kernels = report.kernels};
}

/// All blocks of one fit, each with its spectrum.
class Fit {
 public:
  Fit(const Problem& problem, const FitOptions& options, Communicator& communicator)
      : problem_(problem),
        options_(options),
        communicator_(communicator),
        variances_(problem.pass.components),
        gram_(problem.snapshots->rows() * (problem.snapshots->rows() + 1) / 2) {}

  /// P in `matrix`; returns its digests, all ranks'.
  std::vector<std::string> write(const MatrixTarget& matrix, FitReport& report) {
    const bool whole = options_.blocks == Blocks::whole;
    const BlockPlan shared{
        problem_.pass, options_.kind, whole, &communicator_, matrix, problem_.gram};
    std::vector<std::string> digests;
    for (const auto& block : problem_.blocks) {
      auto part = fit_block(shared, block);
      take(part, report);
      digests = std::move(part.digests);
    }
    require(
        std::ranges::any_of(report.block_components, [](auto rows) { return rows > 0; }),
        "[pca::fit] needs snapshots that differ, received {} that span no direction in any layer",
        report.rows);
    const Stopwatch watch;
    const bool shuffled = options_.kind == Kind::shuffled;
    if (shuffled) {
      write_borders(matrix, communicator_);  // a rank reads what others wrote
      shuffle_columns(problem_.pass, problem_.layers, options_.seed, matrix, communicator_);
    }
    if (shuffled || problem_.blocks.size() > 1) {
      agree(communicator_, [&] { digests = digests_of_file(problem_.pass, matrix); });
    }
    digests = gathered(communicator_, digests);
    report.seconds_components += watch.seconds();
    return digests;
  }

  void record_spectrum(FitReport& report) const {
    for (const double value : variances_) {
      report.singular_values.push_back(std::sqrt(value));
      report.explained_variance_ratio.push_back(total_ > 0 ? value / total_ : 0);
    }
    report.random_walk_ratio = problem_.pass.centred
                                   ? random_walk_ratio(report.rows, report.components)
                                   : std::vector<double>(variances_.size());
  }

  /// The Gram matrix of the centred snapshots; by one more pass where the blocks' is another.
  void record_gram(FitReport& report) {
    if (options_.gram.empty()) return;
    if (!problem_.pass.centred) {
      agree(communicator_, [&] { gram_ = gram_matrix(problem_.centred); });
      communicator_.sum(gram_);
      report.bytes_read +=
          report.rows * problem_.centred.own.size() * problem_.snapshots->info().item_bytes;
    }
    on_rank_0(communicator_, [&] { write_gram(options_.gram, gram_, report.rows); });
  }

 private:
  void take(const BlockFit& part, FitReport& report) {
    for (std::size_t j = 0; j < variances_.size(); ++j) variances_[j] += part.variances[j];
    total_ += part.total;
    if (problem_.pass.centred)
      std::ranges::transform(gram_, part.gram, gram_.begin(), std::plus<>());
    report.block_components.push_back(part.rows);
    report.orthonormality_error = std::max(report.orthonormality_error, part.orthonormality_error);
    report.reorthonormalized |= part.reorthonormalized;
    if (!problem_.gaussian) report.bytes_read += part.bytes_read;
    report.seconds_gram += part.seconds_gram;
    report.seconds_components += part.seconds_components;
  }

  const Problem& problem_;
  const FitOptions& options_;
  Communicator& communicator_;
  std::vector<double> variances_;  // [k]
  double total_ = 0;
  std::vector<double> gram_;  // of the centred snapshots, its lower triangle
};

/// What is known of a fit before P is begun; chooses k where the variance does.
FitReport begin_report(Problem& problem,
                       const SnapshotSource& source,
                       const FitOptions& options,
                       Communicator& communicator) {
  FitReport report;
  report.kind = options.kind;
  report.seed = options.seed;
  report.rows = problem.snapshots->rows();
  report.columns = source.columns();
  report.left_out = source.info().left_out;
  report.kernels = problem.pass.kernels->name;
  report.bytes_read = source.info().bytes_verified;
  if (options.variance > 0) choose_components(problem, options, communicator, report);
  report.components = problem.pass.components;
  return report;
}

/// Writes P into `matrix`, and all that is found into the report.
Sidecar write_matrix(const Problem& problem,
                     const FitOptions& options,
                     const MatrixTarget& matrix,
                     Communicator& communicator,
                     FitReport& report) {
  Fit work(problem, options, communicator);
  auto digests = work.write(matrix, report);
  work.record_spectrum(report);
  work.record_gram(report);
  return sidecar_of(problem, options, report, std::move(digests));
}

}  // namespace

FitReport fit(const SnapshotSource& source,
              const FitOptions& options,
              const fs::path& output,
              Communicator& communicator) {
  const Stopwatch total;
  auto problem = plan_fit(source, options, output, communicator);
  auto report = begin_report(problem, source, options, communicator);
  const auto header = checkpoints::npy_header_bytes({report.components, report.columns});
  const auto file =
      open_output(output, header, report.components * report.columns * 4, communicator);
  Borders borders({.rows = report.components,
                   .columns = report.columns,
                   .header_bytes = std::ssize(header),
                   .page_bytes = page_bytes(communicator)},
                  problem.pass.own);
  const MatrixTarget matrix{.columns = report.columns,
                            .file = file.get(),
                            .header_bytes = std::ssize(header),
                            .borders = communicator.size() > 1 ? &borders : nullptr};
  const auto sidecar = write_matrix(problem, options, matrix, communicator, report);
  report.seconds_fsync =
      write_borders(matrix, communicator) + commit_output(*file, output, sidecar, communicator);
  report.seconds_total = total.seconds();
  share_report(report, communicator);
  return report;
}

FitInMemory fit_in_memory(const SnapshotSource& source,
                          const FitOptions& options,
                          std::span<float> matrix) {
  const Stopwatch total;
  const Ranks alone;
  auto problem = plan_fit(source, options, {}, alone);
  auto report = begin_report(problem, source, options, alone);
  require(std::cmp_greater_equal(matrix.size(), report.components * report.columns),
          "[pca::fit_in_memory] needs room for k x M = {} x {} values, received {}",
          report.components,
          report.columns,
          matrix.size());
  const MatrixTarget target{.columns = report.columns, .memory = matrix.data()};
  const auto sidecar = write_matrix(problem, options, target, alone, report);
  report.seconds_total = total.seconds();
  return {report, to_json(sidecar)};
}

FitReport fit_snapshots(const fs::path& path,
                        const FitOptions& options,
                        const fs::path& output,
                        Communicator& communicator) {
  const auto source = open_source(path, communicator);
  return fit(*source, options, output, communicator);
}

}  // namespace dimred::pca
