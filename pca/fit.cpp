#include "pca/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoints/npy.h"
#include "pca/block_fit.h"
#include "pca/dense.h"
#include "pca/from_first.h"
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
          "[pca] needs 2 or more snapshots, received {}; a larger --snapshots_per_epoch of dimred "
          "stage1 gives more",
          n);
  require(k >= 1, "[pca] needs at least one component, received k = {}", k);
  switch (options.kind) {
    case Kind::pca:
    case Kind::shuffled:
      return require(n - 1 >= k,
                     "[pca] needs more snapshots than components, received {} snapshots and k = "
                     "{}; these snapshots have at most {} components",
                     n,
                     k,
                     n - 1);
    case Kind::span:
      return require(n >= k,
                     "[pca] kind = span needs at least as many snapshots as components, received "
                     "{} snapshots and k = {}",
                     n,
                     k);
    case Kind::random:
      return require(
          columns >= k,
          "[pca] needs at least as many weights as components, received {} weights and k = {}",
          columns,
          k);
  }
}

void check_options(const FitOptions& options, const std::vector<layout::ColumnRange>& layers) {
  require(options.threads >= 0, "[pca] needs threads >= 0, received {}", options.threads);
  require(options.variance >= 0 && options.variance < 1,
          "[pca] needs a share of the variance in (0, 1), received {}",
          options.variance);
  require(options.variance == 0 || (is_centred(options.kind) && options.blocks == Blocks::whole),
          "[pca] components < 1 (share of the variance) needs kind = pca or shuffled, and blocks = "
          "whole; received kind = {} and blocks = {}",
          name_of(options.kind),
          options.blocks == Blocks::whole ? "whole" : "layers");
  require(options.tile_bytes >= 1 << 20,
          "[pca] needs tile_bytes >= 1048576, received {}",
          options.tile_bytes);
  require(!layers.empty() || (options.blocks == Blocks::whole && options.kind != Kind::shuffled),
          "[pca] {} needs snapshots with layer names (.h5 or safetensors), received only snapshots "
          "without layer names",
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
                      "[pca] the snapshots have {} values, but the table of layers has {}",
                      source.columns,
                      layout.file_size);
  return layers;
}

Pass pass_of(const SnapshotSource& rows, std::int64_t components, const Fit& fit) {
  const auto& options = fit.options;
  Pass pass{.rows = &rows,
            .kernels = &select_kernels(options.kernels),
            .components = components,
            .threads = options.threads > 0 ? options.threads : available_threads(),
            .own = own_range(fit.communicator->rank(), fit.communicator->size(), rows.columns())};
  fit_tiles(pass, options.tile_bytes);
  return pass;
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

/// Returns a text of the problem, which must be equal on all ranks for their sums to mean anything.
std::string problem_text(const Fit& fit) {
  return formatted(
      "{} x {} snapshots, k = {}, variance {}, kind {}, blocks {}, seed {}, from {} to {} skip "
      "{}{}",
      fit.snapshots->rows(),
      fit.snapshots->columns(),
      fit.pass.components,
      fit.options.variance,
      name_of(fit.options.kind),
      fit.basis.block_count(),
      fit.options.seed,
      fit.options.snapshots.from,
      fit.options.snapshots.to,
      fit.options.snapshots.skip,
      fit.options.gram.empty() ? "" : ", with Gram matrix");
}

/// The pass over the rows that are combined into k components.
void choose_pass(Fit& fit, std::int64_t k) {
  fit.pass = pass_of(fit.gaussian ? *fit.gaussian : *fit.snapshots, k, fit);
  fit.pass.centred = is_centred(fit.options.kind);
}

/// Throws what fit() refuses, on every rank alike. output: empty for a matrix in memory.
void plan(Fit& fit, const SnapshotSource& source, const fs::path& output) {
  const auto& options = fit.options;
  fit.snapshots = &source;
  if (options.snapshots != SnapshotRange{}) {
    fit.selection = selected(source, options.snapshots);
    fit.snapshots = fit.selection.get();
  }
  fit.layers = layers_of(source.info());
  check_options(options, fit.layers);
  check_components(options, fit.snapshots->rows(), source.columns());
  if (fit.communicator->rank() == 0 && !output.empty()) check_output(output, options.gram, source);
  const auto k = components_of(options, fit.snapshots->rows());
  if (options.kind == Kind::random)
    fit.gaussian = std::make_unique<GaussianSource>(k, source.columns(), options.seed);
  choose_pass(fit, k);
  if (!fit.gaussian) fit.pass.mean = options.mean;
  if (options.blocks == Blocks::layers) fit.basis.header.blocks = fit.layers;
}

/// k of the part of the variance that is asked for, by the first pass of the fit.
void choose_components(Fit& fit) {
  const Stopwatch watch;
  const auto n = fit.snapshots->rows();
  agree(*fit.communicator, [&] { fit.gram = gram_matrix(fit.pass); });
  fit.communicator->sum(fit.gram);
  fit.basis.report.bytes_read += bytes_of(fit.pass);
  const auto chosen = on_rank_0(*fit.communicator, [&] {
    return count_for_part(eigenpairs(fit.gram, n).values, fit.options.variance);
  });
  choose_pass(fit, std::min(chosen, fit.snapshots->columns()));
  fit.basis.report.seconds_gram += watch.seconds();
}

/// A fit with everything known before P is begun; chooses k by the variance if that is asked for.
Fit begin(const SnapshotSource& source,
          const FitOptions& options,
          const fs::path& output,
          Communicator& communicator) {
  Fit fit{.options = options, .communicator = &communicator};
  agree(communicator, [&] { plan(fit, source, output); });
  require_agreement(communicator, {{"the fit", problem_text(fit)}});
  const auto& info = fit.snapshots->info();
  fit.basis.report = {.bytes_read = source.info().bytes_verified,
                      .left_out = info.left_out,
                      .remarks = info.remarks};
  if (options.variance > 0) choose_components(fit);
  const auto n = fit.snapshots->rows();
  fit.centred_gram.resize(n * (n + 1) / 2);
  fit.variances.resize(fit.pass.components);
  auto& header = fit.basis.header;
  header = {.kind = options.kind,
            .blocks = std::move(header.blocks),
            .parameters = source.columns(),
            .components = fit.pass.components,
            .layout_hash = info.layout_hash,
            .layout_json = info.layout_json,
            .digest_columns = columns_per_digest,
            .threads = fit.pass.threads,
            .tile_bytes = options.tile_bytes,
            .kernels = fit.pass.kernels->name};
  if (needs_seed(options.kind)) header.seed = options.seed;
  if (fit.gaussian) return fit;
  header.snapshots = n;
  header.snapshot_names = info.names;
  return fit;
}

/// P in fit.matrix, block by block; its digests, all ranks'.
std::vector<std::string> write_blocks(Fit& fit) {
  auto& communicator = *fit.communicator;
  std::vector<std::string> digests;
  if (fit.basis.header.blocks.empty()) digests = fit_block(fit, {0, fit.matrix.shape.columns});
  for (const auto& block : fit.basis.header.blocks) digests = fit_block(fit, block);
  require(
      std::ranges::any_of(fit.basis.header.block_components, [](auto rows) { return rows > 0; }),
      "[pca] needs different snapshots, received {} snapshots that span no direction in any layer",
      fit.snapshots->rows());
  const Stopwatch watch;
  const bool shuffled = fit.options.kind == Kind::shuffled;
  if (shuffled) {
    write_borders(fit.matrix, communicator);  // a rank reads what others wrote
    shuffle_columns(fit);
  }
  if (shuffled || fit.basis.block_count() > 1)
    agree(communicator, [&] { digests = digests_of_file(fit.pass, fit.matrix); });
  digests = gathered(communicator, digests);
  fit.basis.report.seconds_components += watch.seconds();
  return digests;
}

/// The spectrum of a random walk in the place of the snapshots; zeros where it is not known.
std::vector<double> walk_of(const Fit& fit) {
  const auto rows = fit.snapshots->rows(), components = fit.basis.header.components;
  if (fit.pass.centred) return random_walk_ratio(rows, components);
  if (fit.options.kind == Kind::span && fit.snapshots->info().from_first)
    return random_walk_from_first(rows, components);
  return std::vector<double>(components);
}

void record_spectrum(Fit& fit) {
  auto& header = fit.basis.header;
  for (const double value : fit.variances) {
    header.singular_values.push_back(std::sqrt(value));
    header.explained_variance_ratio.push_back(fit.total_variance > 0 ? value / fit.total_variance
                                                                     : 0);
  }
  header.random_walk_ratio = walk_of(fit);
  if (header.blocks.empty()) header.block_components.clear();
}

/// The Gram matrix of the centred snapshots; by one more pass where the blocks' is another.
void record_gram(Fit& fit) {
  if (fit.options.gram.empty()) return;
  const auto n = fit.snapshots->rows();
  if (!fit.pass.centred) {
    const auto pass = pass_of(*fit.snapshots, fit.pass.components, fit);
    agree(*fit.communicator, [&] { fit.centred_gram = gram_matrix(pass); });
    fit.communicator->sum(fit.centred_gram);
    fit.basis.report.bytes_read += bytes_of(pass);
  }
  on_rank_0(*fit.communicator,
            [&] { fit.gram_file = write_gram(fit.options.gram, fit.centred_gram, n); });
}

/// Writes P into `matrix`, and all that is found into fit.basis.
void write_matrix(Fit& fit, const MatrixTarget& matrix) {
  fit.matrix = matrix;
  fit.basis.header.digests = write_blocks(fit);
  record_spectrum(fit);
  record_gram(fit);
  agree(*fit.communicator, [&] {
    for (std::int64_t row = 0; row < fit.snapshots->rows(); ++row)
      fit.snapshots->require_unchanged(row);
  });
}

/// The last commit, so that no Gram matrix stands without its P, which a later fit would refuse.
void commit_gram(Fit& fit) {
  on_rank_0(*fit.communicator, [&] {
    if (fit.gram_file) fit.gram_file->commit();
  });
}

}  // namespace

Basis fit(const SnapshotSource& source,
          const FitOptions& options,
          const fs::path& output,
          Communicator& communicator) {
  const Stopwatch total;
  auto fit = begin(source, options, output, communicator);
  const auto& header = fit.basis.header;
  const auto start = checkpoints::npy_header_bytes({header.components, header.parameters});
  const auto file =
      open_output(output, start, header.components * header.parameters * 4, communicator);
  const MatrixShape shape{.rows = header.components,
                          .columns = header.parameters,
                          .header_bytes = std::ssize(start),
                          .page_bytes = page_bytes(communicator)};
  Borders borders(shape, fit.pass.own);
  const MatrixTarget matrix{
      .shape = shape, .file = file.get(), .borders = communicator.size() > 1 ? &borders : nullptr};
  write_matrix(fit, matrix);
  auto& report = fit.basis.report;
  report.seconds_fsync =
      write_borders(matrix, communicator) + commit_output(*file, output, header, communicator);
  commit_gram(fit);
  report.seconds_total = total.seconds();
  share_report(fit.basis, communicator);
  return std::move(fit.basis);
}

Basis fit_in_memory(const SnapshotSource& source,
                    const FitOptions& options,
                    std::span<float> matrix) {
  const Stopwatch total;
  auto fit = begin(source, options, {}, alone());
  const auto& header = fit.basis.header;
  require(std::cmp_greater_equal(matrix.size(), header.components * header.parameters),
          "[pca] needs an array for k x M = {} x {} values, received an array of {} values",
          header.components,
          header.parameters,
          matrix.size());
  write_matrix(fit, {.shape = {header.components, header.parameters}, .memory = matrix.data()});
  commit_gram(fit);
  fit.basis.report.seconds_total = total.seconds();
  return std::move(fit.basis);
}

Basis fit_snapshots(const fs::path& path,
                    const FitOptions& options,
                    const fs::path& output,
                    Communicator& communicator) {
  const auto source = open_source(path, communicator);
  return fit(*source, options, output, communicator);
}

}  // namespace dimred::pca
