#pragma once

#include <functional>
#include <string>

#include "support/console.h"
#include "training/curve.h"
#include "training/passes/gradient.h"
#include "training/setup.h"

namespace dimred::training {

struct Run;  // train.h
class Stage;

/// Position of a run; with the weights and optimiser vectors it is the whole resume state.
struct Position {
  std::int64_t epoch = 0;          // finished epochs
  std::int64_t step_in_epoch = 0;  // steps done of the epoch under way
  std::int64_t step = 0;           // steps done in all
  BatchResult epoch_sums;  // of the epoch under way, the training mode's loss and correct count
  bool row_due = false;    // steps were made since the curve's last row
  Totals totals;
};
nlohmann::json to_json(const Position& position);
Position position_from_json(const nlohmann::json& json);

/// Closes the epoch under way: counts it, and zeroes its sums.
void finish_epoch(Position& position);

/// Throws std::invalid_argument when the run has gone further than `epochs` already.
void require_epochs_left(const Position& position, std::int64_t epochs);

/// A row as one console line.
std::string describe(const CurveRow& row, double train_accuracy);

/// One batch of the loop: the tensors, and where it stands.
struct Step {
  models::Minibatch batch;
  std::int64_t global_count = 0;
  ForwardKey key;
  /// To be called once the device is at work on the batch, before anything is waited for: it
  /// prepares the next batch. May be empty.
  std::function<void()> prefetch_next = {};
};

/// stopped: a signal, agreed over ranks when each has its batch or waits for it no longer, and
/// after the last step; enough: in the middle of the epoch a hook wanted the end.
enum class EpochEnd { finished, stopped, enough };

/// Runs the rest of epoch run.position.epoch: each step of the stage between the hooks' before_step
/// and after_step. Keeps the position, data waits and the progress line. Whether a loss that is not
/// finite ends the run, the stage's step decides.
EpochEnd run_epoch(Run& run, Stage& stage);

}  // namespace dimred::training
