#pragma once

#include <filesystem>
#include <optional>

#include "checkpoints/background_writer.h"
#include "checkpoints/state.h"
#include "training/curve.h"
#include "training/hooks.h"

namespace dimred::training {

/// A run under way. All ranks have one; files are written by rank 0.
struct Run {
  Setup* setup = nullptr;
  const RunFolder* folder = nullptr;
  Console* console = nullptr;
  checkpoints::StateStore states;
  std::int64_t checkpoint_every = 1;       // epochs between full states, >= 1
  std::filesystem::path resume_from = {};  // another run, whose state a fresh run begins with
  Hooks hooks = {};
  Position position = {};
  FilePrefix curve_prefix = {};  // the part of curve.csv that belongs to the position
  std::optional<CurveWriter> curve = {};
  checkpoints::BackgroundWriter writer{};  // the last: what it still has to do needs the others

  RunView view() { return {setup, &position, folder, console, &writer}; }
};

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
  /// One step. A loss that is not finite: ends the run by an exception, or is passed over.
  virtual BatchResult step(Run& run, const Step& now) = 0;
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

/// Trains until the stage is done or a hook wants the end: resumes from the folder's newest valid
/// state, else from that of resume_from, else starts fresh. At each epoch's end a row of the
/// present weights and those of the hooks, every checkpoint_every epochs and at the end a state.
/// Bit-identical to a run that was never interrupted. Returns stopped when a signal ended it, with
/// a state of the last step saved, and before the first step without one.
EpochEnd train(Run& run, Stage& stage);

/// Evaluates the present weights as `weights` and adds the row to the curve.
void add_row(Run& run,
             Stage& stage,
             const std::string& weights,
             std::optional<double> train_loss = {},
             double train_accuracy = 0);

}  // namespace dimred::training
