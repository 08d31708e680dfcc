#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoints/background_writer.h"
#include "engine/setup.h"
#include "run/curve.h"
#include "run/position.h"
#include "run/record.h"
#include "run/run_folder.h"
#include "support/console.h"

namespace dimred::checkpoints {
struct State;
}

// Hooks around the steps of a run, apart from the training itself.
namespace dimred::run {

/// A run under way, as its hooks see it.
struct RunView {
  engine::Setup* setup = nullptr;
  const Position* position = nullptr;
  const RunFolder* folder = nullptr;
  Console* console = nullptr;
  const RunRecord* record = nullptr;
  checkpoints::BackgroundWriter* writer =
      nullptr;  // its jobs are done in order, before the next state's
};

struct StepSummary {
  engine::BatchResult result;    // over all ranks
  double seconds = 0;            // of this rank's step and its wait for data; no hooks
  double data_wait_seconds = 0;  // of these
};

/// One thing that a run does beside training. Every rank has the same hooks and calls them at the
/// same points, so a hook may use the communicator; what it writes, rank 0 writes (unless it is
/// about a rank). An exception ends the run.
class Hook {
 public:
  Hook() = default;
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  virtual ~Hook() = default;

  /// Before the first step of this process; after restore(), if the run is taken up again.
  virtual void begin(const RunView& /*run*/) {}
  /// Before a step's batch is waited for. A signal may end the run then, without the step.
  virtual void before_step(const RunView& /*run*/) {}
  /// The position counts the step already. `batch` is this rank's, until this returns.
  virtual void after_step(const RunView& /*run*/,
                          const StepSummary& /*step*/,
                          const models::Minibatch& /*batch*/) {}
  /// At an evaluation: may add rows (of other weights) behind that of the present weights.
  virtual void evaluate(const RunView& /*run*/, std::vector<CurveRow>& /*rows*/) {}
  /// After an epoch's evaluation; `row` is that of the present weights.
  virtual void after_epoch(const RunView& /*run*/, const CurveRow& /*row*/) {}
  /// True ends the run: at the end of an epoch, or in its middle with a row at the part. A function
  /// of what the run state holds, equal on all ranks.
  virtual bool should_stop(const RunView& /*run*/) const { return false; }
  /// After the last step of this process, also of one that a signal stops.
  virtual void end(const RunView& /*run*/) {}

  /// On all ranks: adds what a resume must know, under names of its own; rank 0's state is written.
  virtual void save(const RunView& /*run*/, checkpoints::State& /*state*/) {}
  /// On all ranks; what the state does not have keeps its beginning. `own`: the state is of this
  /// folder, not of the run that another one continues.
  virtual void restore(const engine::Setup& /*setup*/,
                       const checkpoints::State& /*state*/,
                       bool /*own*/) {}
};

/// Several, called in order.
class Hooks {
 public:
  void add(std::unique_ptr<Hook> hook);  // null: none

  /// Each one's part of an event: call(&Hook::begin, run).
  template <class... Parameters, class... Arguments>
  void call(void (Hook::*event)(Parameters...), Arguments&&... arguments) {
    for (const auto& hook : hooks_) (*hook.*event)(arguments...);
  }
  bool should_stop(const RunView& run) const;

 private:
  std::vector<std::unique_ptr<Hook>> hooks_;
};

/// A hook that ends the run when this holds, which is a function of what the run state holds.
std::unique_ptr<Hook> stop_when(std::function<bool(const RunView&)> holds);

}  // namespace dimred::run
