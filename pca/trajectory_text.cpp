#include "pca/trajectory_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "support/errors.h"

namespace dimred::pca {
namespace {

using ReportJson = nlohmann::ordered_json;

ReportJson json_of(const AgainstWalk& statistic) {
  return {{"value", statistic.value},
          {"walk", statistic.walk},
          {"p_value", statistic.p_value},
          {"p_blocks", statistic.p_blocks}};
}

ReportJson json_of(const LineShape& shape) {
  return {{"pc1", json_of(shape.pc1)}, {"r2", json_of(shape.r2)}};
}

ReportJson json_of(const Trajectory& found) {
  return {{"name", found.name},
          {"weights", found.weights},
          {"straightness", json_of(found.straightness)},
          {"p_adjusted", found.p_adjusted},
          {"p_momentum", found.p_momentum},
          {"base", json_of(found.base)},
          {"centred", json_of(found.centred)},
          {"windows", json_of(found.windows)},
          {"effective_dimension", found.directions.effective_dimension},
          {"cosines", found.directions.cosines},
          {"p_neighbours", found.directions.p_neighbours},
          {"verdict", text_of(found.verdict)}};
}

/// The B at which Holm's least p-value for T tensors, 2 T / (B + 1), is below 0.05.
std::int64_t least_flips(std::int64_t tensors) { return 40 * tensors; }

/// The number of signs at which the measured ones and their opposites, 4 T / 2^N, are rare enough.
std::int64_t least_units(std::int64_t tensors) {
  std::int64_t units = 1;
  while (std::ldexp(4.0 * static_cast<double>(tensors), -static_cast<int>(units)) >= significant_p)
    ++units;
  return units;
}

std::string needs(std::int64_t flips, std::int64_t tensors, std::int64_t increments) {
  if (flips < least_flips(tensors))
    return formatted("the test needs at least {} flips, received {}", least_flips(tensors), flips);
  return formatted(
      "the test needs at least {} non-zero increments (from {} snapshots), received {}",
      least_units(tensors),
      least_units(tensors) + 1,
      increments);
}

std::string blocks_needed(const TrajectoryReport& report) {
  const auto& [flips, block] = std::tie(report.options.flips, report.options.block);
  if (flips < least_flips(1))
    return formatted("the test needs at least {} flips, received {}", least_flips(1), flips);
  const auto snapshots = least_units(1) * block - block + 2;
  const bool too_short = report.snapshots < snapshots;
  return formatted(
      "with blocks of {} increments the test needs {} {}, received {}; a smaller --block separates "
      "drift from momentum less well",
      block,
      too_short ? snapshots : least_units(1),
      too_short ? "snapshots" : "blocks with non-zero increments",
      too_short ? report.snapshots : report.whole.moving_blocks);
}

/// Adds a line for trajectories whose every draw of signs gives the same.
void add_alike(const TrajectoryReport& report,
               std::int64_t moving,
               std::vector<std::string>& limits) {
  constexpr auto reason =
      "cannot be tested: the increments are orthogonal, so all signs give the same straightness";
  const auto is_alike = [](const Trajectory& one) { return one.verdict == Verdict::all_alike; };
  if (is_alike(report.whole))
    limits.push_back(formatted("the straightness of all weights {}", reason));
  if (const auto count = std::ranges::count_if(report.tensors, is_alike); count > 0)
    limits.push_back(formatted("the straightness of {} of {} tensors {}", count, moving, reason));
}

}  // namespace

std::string_view text_of(Verdict verdict) {
  constexpr std::array<std::string_view, 9> texts{
      "does not move",
      "no more than a random walk",
      "less straight than a random walk",
      "correlated: drift cannot be told apart",
      "straighter than a random walk, but blocks or momentum may explain this",
      "drift",
      "unknown: too few flips or snapshots to reject a random walk",
      "straighter than a random walk, but too few blocks to say drift",
      "unknown: the increments are orthogonal, so all signs give the same straightness"};
  return texts.at(static_cast<std::size_t>(verdict));
}

std::vector<std::string> limits_of(const TrajectoryReport& report) {
  std::vector<std::string> limits;
  if (report.whole.least_p >= significant_p)
    limits.push_back(formatted("the straightness of all weights cannot be tested: {}",
                               needs(report.options.flips, 1, report.whole.moving_increments)));
  std::int64_t moving = 0, untested = 0, fewest = report.snapshots;
  for (const auto& tensor : report.tensors) {
    if (tensor.verdict == Verdict::still) continue;
    ++moving;
    if (tensor.least_p < significant_p) continue;
    ++untested;
    fewest = std::min(fewest, tensor.moving_increments);
  }
  if (untested > 0)
    limits.push_back(formatted("the straightness of {} of {} tensors cannot be tested: {}",
                               untested,
                               moving,
                               needs(report.tensor_flips, moving, fewest)));
  if (report.whole.least_p_blocks >= significant_p)
    limits.push_back(
        "the test of blocks cannot reject a random walk, so the verdict on all weights cannot be "
        "drift: " +
        blocks_needed(report));
  add_alike(report, moving, limits);
  return limits;
}

std::string to_json(const TrajectoryReport& report) {
  auto tensors = ReportJson::array();
  for (const auto& tensor : report.tensors) tensors.push_back(json_of(tensor));
  const ReportJson json{{"snapshots", report.snapshots},
                        {"flips", report.options.flips},
                        {"block", report.options.block},
                        {"window", report.options.window},
                        {"seed", report.options.seed},
                        {"whole", json_of(report.whole)},
                        {"limits", limits_of(report)},
                        {"tensors", std::move(tensors)}};
  return json.dump(-1, ' ', false, ReportJson::error_handler_t::replace);
}

}  // namespace dimred::pca
