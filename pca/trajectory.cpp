#include "pca/trajectory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "layout/layout.h"
#include "pca/gram.h"
#include "pca/straightness.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::pca {
namespace {

using Eigen::MatrixXd;

constexpr std::int64_t most_lags = 10;
/// A straighter path than a walk's is a drift only if neighbours are uncorrelated by a p-value
/// above this one, and if a walk whose neighbours correlate as much as they still may is not as
/// straight. Simulated 2,000 times, AR(0.2) without drift is then called `drift` in at most 0.6 %
/// (20, 40, 74 increments, 2, 5, 18 dimensions; by this p-value alone at 0.2 in 1.9 %), a drift of
/// three times the noise in 87 % (74 increments, 18 dimensions; 75 %), one as large as the noise in
/// 36 % (34 %).
constexpr double uncorrelated_p = 0.1;
constexpr std::int64_t bytes_of_tiles = 32 << 20;

/// A tensor's columns, or all.
struct TensorColumns {
  std::string name;
  layout::ColumnRange columns;
};

std::vector<TensorColumns> parts_of(const SourceInfo& source) {
  if (source.layout_json.empty()) return {{"", {0, source.columns}}};
  std::vector<TensorColumns> parts;
  for (const auto& entry : layout::layout_from_json(source.layout_json).entries) {
    if (entry.size == 0) continue;
    parts.push_back({entry.name, {entry.file_offset, entry.file_offset + entry.size}});
  }
  return parts;
}

/// G of increments from the lower triangle of the centred snapshots' Gram matrix [n x n].
MatrixXd increments_of(const std::vector<double>& lower, std::int64_t n) {
  MatrixXd gram(n, n);
  const double* from = lower.data();
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) gram(i, j) = gram(j, i) = *from++;
  const MatrixXd rows = gram.bottomRows(n - 1) - gram.topRows(n - 1);
  return rows.rightCols(n - 1) - rows.leftCols(n - 1);
}

std::vector<MatrixXd> increment_grams(const SnapshotSource& source,
                                      const std::vector<TensorColumns>& parts,
                                      std::int64_t threads) {
  Pass pass{.rows = &source,
            .kernels = &select_kernels(KernelSet::automatic),
            .components = 1,
            .threads = threads,
            .own = {0, source.columns()}};
  fit_tiles(pass, bytes_of_tiles);
  std::vector<MatrixXd> grams;
  for (const auto& part : parts)
    grams.push_back(increments_of(gram_matrix(within(pass, part.columns)), source.rows()));
  return grams;
}

TrajectoryOptions with_defaults(TrajectoryOptions options, std::int64_t n) {
  require(n >= 4, "[trajectory] needs 4 or more snapshots, received {}", n);
  if (options.block == 0) options.block = std::max<std::int64_t>(2, (n - 1) / 8);
  if (options.window == 0) options.window = std::max<std::int64_t>(2, n / 4);
  if (options.threads == 0) options.threads = available_threads();
  require(options.flips >= 19 && options.flips <= most_flips,
          "[trajectory] flips must be from 19 to {}, received {}",
          most_flips,
          options.flips);
  require(
      options.block >= 1 && options.block < n && options.threads > 0,
      "[trajectory] needs block from 1 to {} and threads >= 0, received block = {}, threads = {}",
      n - 1,
      options.block,
      options.threads);
  require(options.window >= 2 && options.window <= n - 2,
          "[trajectory] needs window from 2 to {} for {} snapshots, received {}",
          n - 2,
          n,
          options.window);
  return options;
}

/// State shared by the measures of all parts.
struct FlipPlan {
  TrajectoryOptions options;
  std::array<PointView, 3> views;  // from the base, centred, of windows
  WalkNull null;

  FlipPlan(const TrajectoryOptions& given, std::int64_t increments)
      : options(given),
        views{view_from_base(increments),
              view_centred(increments),
              view_of_windows(increments, options.window)},
        null{{options.flips, 1, options.seed, options.stop},
             {options.flips, options.block, options.seed, options.stop}} {}
};

/// Holm's least p-value of T tensors is 2 T / (B + 1), as p-values have two sides. With B = 40 T k
/// a tensor is rejected where fewer than k draws are as straight: k = 5 finds more than k = 1, and
/// costs five times as much.
std::int64_t flips_for_tensors(std::int64_t given, std::int64_t moving) {
  constexpr std::int64_t least = 40, better = 5 * least, costly = 100'000;
  const auto wanted = std::max(least * moving, std::min(better * moving, costly));
  return wanted > most_flips ? given : std::max(given, wanted);
}

/// The least two-sided p-value by B signs of some units: one draw's, or that of the measured
/// signs and their opposites among all.
double least_p(std::int64_t units, std::int64_t flips) {
  return std::min(
      1.0, std::max(2 / static_cast<double>(flips + 1), std::ldexp(4, -static_cast<int>(units))));
}

std::int64_t moving_blocks(const MatrixXd& gram, std::int64_t block) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < gram.rows(); i += block)
    count += gram.diagonal().segment(i, std::min(block, gram.rows() - i)).sum() > 0 ? 1 : 0;
  return count;
}

/// Everything but the straightness.
void measure(const MatrixXd& gram, const FlipPlan& plan, Trajectory& found) {
  if (gram.trace() <= 0) return;
  found.base = line_shape(gram, plan.views[0], plan.null);
  found.centred = line_shape(gram, plan.views[1], plan.null);
  found.windows = line_shape(gram, plan.views[2], plan.null);
  found.directions = directions(gram, most_lags, plan.null.increments);
  auto& dimension = found.directions.effective_dimension;
  dimension = std::min(dimension, static_cast<double>(found.weights));
  found.verdict = Verdict::random_walk;
}

/// The straightness of moving tensors, grams [i] of found[i]; they are tested together.
void test_straightness(std::vector<MatrixXd> grams,
                       std::span<Trajectory> found,
                       const WalkNull& null,
                       std::int64_t threads) {
  std::vector<Trajectory*> moving;
  std::vector<double> bounds;
  for (auto& one : found) {
    if (one.verdict == Verdict::still) continue;
    const auto& gram = grams[&one - found.data()];
    one.moving_increments = moving_blocks(gram, 1);
    one.moving_blocks = moving_blocks(gram, null.blocks.block);
    one.least_p_blocks = least_p(one.moving_blocks, null.blocks.count);
    grams[moving.size()] = std::move(grams[&one - found.data()]);
    moving.push_back(&one);
    bounds.push_back(one.directions.neighbours_bound);
  }
  grams.resize(moving.size());
  std::vector<double> least;
  for (const auto* one : moving)
    least.push_back(least_p(one->moving_increments, null.increments.count));
  least = adjusted_by_holm(least);
  const auto all = straightness_of_all(grams, bounds, null, threads);
  std::vector<double> p_values;
  for (const auto& one : all) p_values.push_back(one.walk.p_value);
  const auto adjusted = adjusted_by_holm(p_values);
  for (std::size_t i = 0; i < all.size(); ++i) {
    moving[i]->straightness = all[i].walk;
    moving[i]->p_adjusted = adjusted[i];
    moving[i]->p_momentum = all[i].p_momentum;
    moving[i]->all_alike = all[i].all_alike;
    moving[i]->least_p = least[i];
  }
}

/// Names the parts that are straighter than random signs explain.
Verdict verdict_beyond_signs(const Trajectory& found) {
  if (found.p_momentum >= significant_p) return Verdict::unclear;
  if (found.straightness.p_blocks < significant_p) return Verdict::drift;
  return found.least_p_blocks >= significant_p ? Verdict::too_few_blocks : Verdict::unclear;
}

void judge(Trajectory& found) {
  if (found.verdict == Verdict::still) return;
  const bool more = found.p_adjusted < significant_p;
  const double neighbours = found.directions.p_neighbours;
  if (more && found.straightness.value < 1) {
    found.verdict = Verdict::returning;
  } else if (neighbours < (more ? uncorrelated_p : significant_p)) {
    found.verdict = Verdict::correlated;
  } else if (more) {
    found.verdict = verdict_beyond_signs(found);
  } else if (found.least_p >= significant_p) {
    found.verdict = Verdict::too_few;
  } else if (found.all_alike) {
    found.verdict = Verdict::all_alike;
  }
}

}  // namespace

TrajectoryReport measure_trajectory(const SnapshotSource& source, const TrajectoryOptions& given) {
  require(source.info().unordered.empty(),
          "[trajectory] needs the order of the snapshots, but {}",
          source.info().unordered);
  const auto& info = source.info();
  TrajectoryReport report{.snapshots = info.rows,
                          .options = with_defaults(given, info.rows),
                          .left_out = info.left_out,
                          .remarks = info.remarks};
  const auto parts = parts_of(info);
  const auto threads = report.options.threads;
  auto grams = increment_grams(source, parts, threads);
  MatrixXd sum = MatrixXd::Zero(info.rows - 1, info.rows - 1);
  for (const auto& gram : grams) sum += gram;
  require(sum.trace() > 0,
          "[trajectory] needs different snapshots, received {} equal snapshots",
          info.rows);
  report.whole.weights = info.columns;
  if (!info.layout_json.empty()) {
    for (const auto& [name, columns] : parts)
      report.tensors.push_back({.name = name, .weights = columns.size()});
  }
  const FlipPlan plan(report.options, info.rows - 1);
  in_parallel(std::ssize(report.tensors) + 1, threads, [&](std::int64_t i) {
    if (i == 0) return measure(sum, plan, report.whole);
    measure(grams[i - 1], plan, report.tensors[i - 1]);
  });
  const auto moving = std::ranges::count_if(
      report.tensors, [](const Trajectory& one) { return one.verdict != Verdict::still; });
  report.tensor_flips = flips_for_tensors(given.flips, moving);
  auto many = plan.null;
  many.increments.count = many.blocks.count = report.tensor_flips;
  test_straightness({std::move(sum)}, {&report.whole, 1}, plan.null, threads);
  test_straightness(std::move(grams), report.tensors, many, threads);
  judge(report.whole);
  for (auto& tensor : report.tensors) judge(tensor);
  return report;
}

}  // namespace dimred::pca
