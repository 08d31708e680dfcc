#include "run/position.h"

#include <nlohmann/json.hpp>

#include "checkpoints/state.h"

namespace dimred::run {

nlohmann::json to_json(const Position& position) {
  const auto& sums = position.epoch_sums;
  return {{"epoch", position.epoch},
          {"step_in_epoch", position.step_in_epoch},
          {"step", position.step},
          {"loss_sum", sums.loss_sum},
          {"correct_count", sums.correct_count},
          {"sample_count", sums.sample_count},
          {"row_due", position.row_due},
          {"totals", to_json(position.totals)}};
}

Position position_from_json(const nlohmann::json& json) {
  using checkpoints::count_of;
  return {.epoch = count_of(json, "epoch"),
          .step_in_epoch = count_of(json, "step_in_epoch"),
          .step = count_of(json, "step"),
          .epoch_sums = {json.at("loss_sum"), json.at("correct_count"), json.at("sample_count")},
          .row_due = json.at("row_due"),
          .totals = totals_from_json(json.at("totals"))};
}

}  // namespace dimred::run
