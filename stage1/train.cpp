#include "stage1/train.h"

#include <cmath>

#include "stage1/hooks.h"
#include "stage1/state.h"
#include "stage1/step.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/evaluate.h"
#include "training/signals.h"
#include "training/state.h"

namespace dimred::stage1 {
namespace {

using training::EpochEnd;

/// One run under way: the loop's parts, so that each function below is one thing that happens.
struct Run {
  training::Setup& setup;
  const training::RunFolder& folder;
  const Options& options;
  Console& console;
  Descent descent;
  TrainState state;
  checkpoints::StateStore states;
  training::Hooks hooks;
  checkpoints::BackgroundWriter writer;  // the last: what it still has to do needs the others
  double last_loss = 0;                  // of the step before; 0: none yet
};

training::RunView view(Run& run) {
  return {.setup = run.setup,
          .position = run.state.position,
          .folder = run.folder,
          .console = run.console,
          .writer = run.writer};
}

double learning_rate(const Run& run) {
  return schedules::learning_rate(run.options.schedule,
                                  static_cast<double>(run.state.position.step),
                                  static_cast<double>(run.setup.steps_per_epoch()));
}

/// What a run does beside training, in this order after each step.
void add_hooks(Run& run) {
  const auto& control = run.options.control;
  run.hooks.add(make_snapshots(run.options.saves, run.folder));
  run.hooks.add(make_step_log(control, [&run] { return learning_rate(run); }));
  run.hooks.add(make_ema(run.options.ema));
  run.hooks.add(make_early_stopping(control, run.folder));
  run.hooks.add(make_stop_at_step(control));
  training::add_hooks(run.hooks, run.options.hooks, run.setup.communicator->size());
}

/// Ends the run; the weights are still those before the step, the loss is the same on all ranks.
void require_finite(const Run& run, const training::BatchResult& result) {
  const auto& position = run.state.position;
  const auto before =
      run.last_loss == 0 ? std::string() : formatted(", the loss before {}", run.last_loss);
  require_environment(
      std::isfinite(result.loss_sum),
      "[training] the loss is not finite at epoch {}, step {} (learning rate {}{}); earlier files "
      "are kept; a lower learning_rate, a longer warm-up or max_gradient_norm may help",
      position.epoch + 1,
      position.step_in_epoch + 1,
      learning_rate(run),
      before);
}

training::BatchResult train_step(Run& run, const training::Step& step) {
  auto& position = run.state.position;
  const auto result = descend(run.descent, step, learning_rate(run), position.step + 1);
  require_finite(run, result);
  ++position.totals.forward_passes;
  ++position.totals.backward_passes;
  run.last_loss = result.mean_loss();
  return result;
}

/// The curve that the state counts is durable before the state is.
void save_state(Run& run) {
  training::require_equal_weights(run.setup, run.state.position);
  const ScopedSeconds saving(run.state.position.totals.seconds);
  auto saved = to_checkpoint(run.setup, run.state);
  run.hooks.save(view(run), saved);
  if (run.setup.communicator->rank() != 0) return;
  run.writer.submit([&store = run.states, curve = run.folder.curve(), saved = std::move(saved)] {
    sync_file(curve);
    store.save(saved);
  });
}

/// Curves call all forms of SGD so.
std::string method_of(optimizers::OptimizerKind kind) {
  using enum optimizers::OptimizerKind;
  return kind == momentum || kind == sgd || kind == nesterov ? "sgd" : optimizers::name_of(kind);
}

/// A curve row of the present weights, and those of the hooks; returns the first.
training::CurveRow evaluate(Run& run,
                            training::CurveWriter& curve,
                            double epoch,
                            double rate,
                            const training::BatchResult& trained) {
  // The state before is durable before this epoch counts as done: no more than one is ever lost.
  training::wait_for(run.writer, run.setup);
  const auto& position = run.state.position;
  std::vector<training::CurveRow> rows{{.stage = "stage1",
                                        .method = method_of(run.options.optimizer.kind),
                                        .epoch = epoch,
                                        .step = position.step,
                                        .totals = position.totals,
                                        .learning_rate = rate,
                                        .train_loss = trained.mean_loss()}};
  training::add_scores(run.setup, rows.front(), run.console);
  run.hooks.evaluate(view(run), rows);
  for (const auto& row : rows) {
    curve.append(row);
    run.console.line(training::describe(row, trained.accuracy()));
  }
  run.state.curve = curve.prefix();
  run.state.position.row_due = false;
  return rows.front();
}

/// The newest valid state of this folder, else of another run, else a fresh start.
void start_or_resume(Run& run) {
  auto saved = training::newest_state(run.states, run.setup, run.console);
  const bool own = saved.has_value();
  if (!own && !run.options.resume_from.empty()) {
    saved = training::shared_state(run.setup, [&run] {
      return std::optional(training::read_run_state(run.options.resume_from));
    });
  }
  const auto from = own ? run.folder.path() : saved ? run.options.resume_from : "";
  training::begin(run.setup, run.options.transfer, run.folder.path(), from, run.console);
  if (!saved) return;
  from_checkpoint(*saved, run.setup, run.state);
  run.hooks.restore(run.setup, *saved, own);
  if (!own) {
    run.state.curve = {};
    require(run.state.position.epoch < run.options.epochs,
            "[stage1] epochs needs more than the {} of --resume_from, received {}",
            run.state.position.epoch,
            run.options.epochs);
  }
  training::require_epochs_left(run.state.position, run.options.epochs);
  run.console.line(formatted("continuing at epoch {}, step {} of {}",
                             run.state.position.epoch,
                             run.state.position.step,
                             own ? run.folder.path().string() : run.options.resume_from.string()));
}

/// An epoch that ends in its middle: rows at its part, and a state.
void finish_part(Run& run, training::CurveWriter& curve) {
  const auto& position = run.state.position;
  const double part = static_cast<double>(position.step_in_epoch) /
                      static_cast<double>(run.setup.steps_per_epoch());
  evaluate(run,
           curve,
           static_cast<double>(position.epoch) + part,
           learning_rate(run),
           position.epoch_sums);
  save_state(run);
}

void finish_epoch(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  const auto rate = learning_rate(run);
  const auto trained = position.epoch_sums;
  training::finish_epoch(position);
  const auto row = evaluate(run, curve, static_cast<double>(position.epoch), rate, trained);
  const auto& buckets = run.descent.buckets;
  if (run.setup.communicator->size() > 1)
    run.console.line(training::describe(buckets.overlap(), buckets.count()));
  if (run.setup.loss_scale.active()) run.console.line(training::describe(run.setup.loss_scale));
  run.hooks.after_epoch(view(run), row);
  if (position.epoch % run.options.saves.checkpoint_every == 0 ||
      position.epoch == run.options.epochs || run.hooks.want_end(view(run)))
    save_state(run);
}

EpochEnd train_epoch(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  auto end = training::run_epoch(
      view(run),
      position,
      formatted("epoch {}/{}", position.epoch + 1, run.options.epochs),
      [&](const training::Step& step) { return train_step(run, step); },
      run.hooks);
  const auto trained = position;
  try {
    if (end == EpochEnd::enough) finish_part(run, curve);
    if (end == EpochEnd::finished) finish_epoch(run, curve);
  } catch (const training::Stopped&) {
    position = trained;  // a resume begins with the evaluation
    end = EpochEnd::stopped;
  }
  if (end == EpochEnd::stopped) save_state(run);
  return end;
}

}  // namespace

EpochEnd train(training::Setup& setup,
               const training::RunFolder& folder,
               const Options& options,
               Console& console) {
  validate(options);
  require(options.saves.snapshots_per_epoch <= setup.steps_per_epoch(),
          "[stage1] snapshots_per_epoch needs at most the {} steps of an epoch, received {}",
          setup.steps_per_epoch(),
          options.saves.snapshots_per_epoch);
  Run run{.setup = setup,
          .folder = folder,
          .options = options,
          .console = console,
          .descent = {setup, options.optimizer, options.buckets},
          .state = {.optimizer = optimizers::name_of(options.optimizer.kind)},
          .states = {folder.checkpoints(), options.saves.keep_checkpoints},
          .hooks = {},
          .writer = checkpoints::BackgroundWriter()};
  run.state.vectors = run.descent.optimizer->vectors();
  add_hooks(run);
  start_or_resume(run);
  training::CurveWriter curve(folder.curve(), run.state.curve);
  run.hooks.begin(view(run));
  auto end = EpochEnd::finished;
  const auto& position = run.state.position;
  const auto goes_on = [&] {
    return position.row_due || (position.epoch < options.epochs && !run.hooks.want_end(view(run)));
  };
  while (end == EpochEnd::finished && goes_on()) end = train_epoch(run, curve);
  training::wait_for(run.writer, run.setup);
  run.hooks.end(view(run));
  return end == EpochEnd::stopped ? end : EpochEnd::finished;
}

}  // namespace dimred::stage1
