#include "pca/report.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "checkpoints/weight_names.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::pca {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::string percent(double ratio) { return decimal_text(100 * ratio, 2) + " %"; }

std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return formatted("{} x {}", count_text(rows), count_text(columns));
}

/// W, P, and what P is unless it is the PCA of all columns.
std::string shapes_text(const Sidecar& basis) {
  std::string text;
  if (basis.kind != Kind::random) {
    text = formatted("W {} -> ", shape_text(basis.snapshots, basis.parameters));
  }
  text += formatted("P {} ({})\n",
                    shape_text(basis.components, basis.parameters),
                    bytes_text(basis.components * basis.parameters * 4));
  if (basis.kind != Kind::pca) text += formatted("kind {}", name_of(basis.kind));
  if (needs_seed(basis.kind)) text += formatted(", seed {}", basis.seed.value());
  if (basis.kind != Kind::pca) text += '\n';
  const auto& rows = basis.block_components;
  if (rows.size() < 2) return text;
  const auto fewer = std::ranges::count_if(
      rows, [&basis](std::int64_t count) { return count < basis.components; });
  return text + formatted("{} blocks, {} directions in all; {} blocks have fewer than {}\n",
                          rows.size(),
                          std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                          fewer,
                          basis.components);
}

std::string variance_text(const Sidecar& basis) {
  if (basis.kind == Kind::random) return {};
  const bool centred = basis.kind != Kind::span;
  auto text = formatted("{}{} in {} components, {} in the first",
                        centred ? "explained variance " : "share of the squared norm ",
                        percent(sum_of(basis.explained_variance_ratio)),
                        basis.components,
                        percent(basis.explained_variance_ratio.front()));
  if (!centred) return text + '\n';
  if (basis.kind == Kind::shuffled) text += " before the shuffle";
  return text + formatted(" (a random walk of {} snapshots: {}, {})\n",
                          basis.snapshots,
                          percent(sum_of(basis.random_walk_ratio)),
                          percent(basis.random_walk_ratio.front()));
}

}  // namespace

void share_report(Basis& basis, Communicator& communicator) {
  auto& report = basis.report;
  std::vector<double> bytes(1, report.bytes_read);  // exact below 2^53
  communicator.sum(bytes);
  report.bytes_read = bytes[0];
  std::vector<double> seconds{
      report.seconds_gram, report.seconds_components, report.seconds_fsync, report.seconds_total};
  broadcast(communicator, seconds);
  report.seconds_gram = seconds[0];
  report.seconds_components = seconds[1];
  report.seconds_fsync = seconds[2];
  report.seconds_total = seconds[3];
  basis.header.kernels = broadcast(communicator, basis.header.kernels);
}

std::vector<double> random_walk_ratio(std::int64_t snapshots, std::int64_t count) {
  require(snapshots >= 2 && count >= 1 && count <= snapshots - 1,
          "[pca] needs a count from 1 to the number of snapshots - 1, received {} snapshots and "
          "count = {}",
          snapshots,
          count);
  std::vector<double> ratio;
  for (std::int64_t i = 1; i < snapshots; ++i) {
    const double angle = std::numbers::pi * i / snapshots;
    ratio.push_back(1 / (2 * (1 - std::cos(angle))));
  }
  const double total = sum_of(ratio);
  ratio.resize(count);
  for (double& value : ratio) value /= total;
  return ratio;
}

std::string describe(const Basis& basis) {
  const auto& header = basis.header;
  const auto& report = basis.report;
  const double seconds = report.seconds_total - report.seconds_fsync;
  auto text = shapes_text(header) + variance_text(header);
  if (!report.left_out.empty())
    text += formatted("left out as training state: {}\n",
                      checkpoints::count_and_names(report.left_out));
  text += formatted("|P P' - I| <= {}{}\n",
                    header.orthonormality_error,
                    header.reorthonormalized
                        ? " (orthonormalised in a second pass, because the spectrum is steep)"
                        : "");
  text +=
      formatted("{} (Gram {}, components {}; fsync apart: {} s), read {} at {} GB/s, {} kernels",
                duration_text(seconds),
                duration_text(report.seconds_gram),
                duration_text(report.seconds_components),
                decimal_text(report.seconds_fsync, 3),
                bytes_text(report.bytes_read),
                decimal_text(report.bytes_read * 1e-9 / seconds, 2),
                header.kernels);
  if (!report.peak_memory.empty()) text += formatted("\npeak memory {}", report.peak_memory);
  return text;
}

}  // namespace dimred::pca
