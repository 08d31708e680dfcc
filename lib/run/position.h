#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "engine/passes/gradient.h"
#include "run/curve.h"

namespace dimred::run {

/// Position of a run; with the weights and optimiser vectors it is the whole resume state.
struct Position {
  std::int64_t epoch = 0;          // finished epochs
  std::int64_t step_in_epoch = 0;  // steps done of the epoch under way
  std::int64_t step = 0;           // steps done in all
  engine::BatchResult
      epoch_sums;        // of the epoch under way, the training mode's loss and correct count
  bool row_due = false;  // steps were made since the curve's last row
  Totals totals;
};
nlohmann::json to_json(const Position& position);
Position position_from_json(const nlohmann::json& json);

}  // namespace dimred::run
