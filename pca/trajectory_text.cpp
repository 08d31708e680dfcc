#include "pca/trajectory_text.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

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

}  // namespace

std::string_view text_of(Verdict verdict) {
  constexpr std::array<std::string_view, 6> texts{
      "does not move",
      "no more than a random walk",
      "less straight than a random walk",
      "correlated: drift cannot be told apart",
      "straighter than a random walk, but not than blocks or momentum may be",
      "drift"};
  return texts.at(static_cast<std::size_t>(verdict));
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
                        {"tensors", std::move(tensors)}};
  return json.dump(-1, ' ', false, ReportJson::error_handler_t::replace);
}

}  // namespace dimred::pca
