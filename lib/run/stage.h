#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/input/batches.h"
#include "run/run.h"

namespace dimred::run {

/// A stage's part of the loop that both share. Everything is called on all ranks at the same
/// points.
class Stage {
 public:
  virtual ~Stage() = default;

  /// A curve row with the stage's and the method's name, and the rate of the next step.
  virtual CurveRow named_row(const Run& run) const = 0;
  /// The text that the progress line shows for a position: "epoch 3/10".
  virtual std::string epoch_label(const Position& position) const = 0;
  /// The run ends after this number of epochs; none: it ends by a budget.
  virtual std::optional<std::int64_t> epochs() const = 0;
  virtual bool is_done(const Position& position) const = 0;

  /// Before a state is restored; `resumed_from` is its run, empty for a fresh start.
  virtual void prepare(Run& /*run*/, const std::filesystem::path& /*resumed_from*/) {}
  /// Once it is known where the files go on.
  virtual void open_files(Run& /*run*/) {}
  /// A run without a state: puts its first weights in place, and may add rows. Throws Stopped.
  virtual void start(Run& /*run*/) {}
  /// One step on a batch. A loss that is not finite: ends the run by an exception, or is passed
  /// over.
  virtual engine::BatchResult step(Run& run, const engine::DeviceBatch& batch) = 0;
  /// Sees each row before it is recorded. Throws std::runtime_error for one after which the run
  /// cannot go on.
  virtual void see_row(const CurveRow& /*row*/) {}
  /// Lines on the console behind an epoch's rows.
  virtual void describe_epoch(Run& /*run*/) {}
  /// After the last step of a run that has come to its end. Throws Stopped.
  virtual void finish(Run& /*run*/) {}

  /// The part of a state beside network, position and hooks. restore() throws std::invalid_argument
  /// for the state of another method.
  virtual void save(const Run& run, checkpoints::State& state) = 0;
  virtual void restore(Run& run, const checkpoints::State& state) = 0;
};

}  // namespace dimred::run
