#include "stage1/train.h"

#include <cmath>

#include "checkpoints/atomic_file.h"
#include "checkpoints/background_writer.h"
#include "optimizers/clip.h"
#include "stage1/state.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/evaluate.h"
#include "training/state.h"

namespace dimred::stage1 {
namespace {

/// One run under way: the loop's parts, so that each function below is one thing that happens.
struct Run {
  training::Setup& setup;
  const training::RunFolder& folder;
  const Options& options;
  Console& console;
  TrainState state;
  checkpoints::SnapshotStore snapshots, best;
  checkpoints::StateStore states;
  std::vector<optimizers::Segment> segments;
  std::unique_ptr<optimizers::Optimizer> optimizer;
  optimizers::StepControl control;
  training::GradientBuckets buckets;
  checkpoints::BackgroundWriter writer;
  StepLog log;
  double last_loss = 0;  // of the step before; 0: none yet
};

double learning_rate(const Run& run) {
  return schedules::learning_rate(run.options.schedule,
                                  static_cast<double>(run.state.position.step),
                                  static_cast<double>(run.setup.steps_per_epoch()));
}

/// Ends the run before the weights are touched; the loss is the same on all ranks.
void require_finite(const Run& run, const training::BatchResult& result) {
  const auto& position = run.state.position;
  const auto before =
      run.last_loss == 0 ? std::string() : concat(", the loss before ", run.last_loss);
  require_environment(std::isfinite(result.loss_sum),
                      "training",
                      "the loss is not finite at epoch ",
                      position.epoch + 1,
                      ", step ",
                      position.step_in_epoch + 1,
                      " (learning rate ",
                      learning_rate(run),
                      before,
                      "); earlier files are kept; a lower learning_rate, a longer warm-up or "
                      "max_gradient_norm may help");
}

/// Loss and gradient of the batch, summed over ranks, and the optimiser's step.
training::BatchResult train_step(Run& run, const training::Step& step) {
  auto& flat = run.setup.flat;
  const auto result =
      training::loss_and_gradient(run.setup, step.batch, step.global_count, step.key, &run.buckets);
  run.buckets.finish();
  require_finite(run, result);
  optimizers::prepare_gradient(flat.gradient, run.segments, run.options.optimizer.gradient);
  run.control.set(learning_rate(run), run.state.position.step + 1);
  run.optimizer->step(flat.weights, flat.gradient, run.control);
  auto& totals = run.state.position.totals;
  ++totals.forward_passes;
  ++totals.backward_passes;
  run.last_loss = result.mean_loss();
  run.log.add(result);
  return result;
}

/// Snapshot i of n of an epoch is due after step ceil(i * steps / n).
bool snapshot_due(const Run& run) {
  const auto& saves = run.options.saves;
  const auto& position = run.state.position;
  if (saves.snapshots_per_epoch == 0 || position.epoch + 1 < saves.snapshot_from_epoch)
    return false;
  const auto steps = run.setup.steps_per_epoch();
  const auto due = [&](std::int64_t step) { return step * saves.snapshots_per_epoch / steps; };
  return due(position.step_in_epoch) > due(position.step_in_epoch - 1);
}

void save_snapshot_if_due(Run& run) {
  if (!snapshot_due(run) || run.setup.communicator->rank() != 0) return;
  run.writer.submit(
      [&store = run.snapshots, snapshot = training::to_snapshot(run.setup, run.state.position)] {
        store.save(snapshot);
      });
}

/// The curve that the state counts is durable before the state is.
void save_state(Run& run) {
  training::require_equal_weights(run.setup, run.state.position);
  if (run.setup.communicator->rank() != 0) return;
  const ScopedSeconds saving(run.state.position.totals.seconds);
  run.writer.submit([&store = run.states,
                     curve = run.folder.curve(),
                     saved = to_checkpoint(run.setup, run.state)] {
    checkpoints::sync_file(curve);
    store.save(saved);
  });
}

/// Curves call all forms of SGD so.
std::string method_of(optimizers::OptimizerKind kind) {
  using enum optimizers::OptimizerKind;
  return kind == momentum || kind == sgd || kind == nesterov ? "sgd" : optimizers::name_of(kind);
}

training::CurveRow evaluate(Run& run, double train_loss, double rate) {
  const auto& position = run.state.position;
  training::CurveRow row{.stage = "stage1",
                         .method = method_of(run.options.optimizer.kind),
                         .epoch = static_cast<double>(position.epoch),
                         .step = position.step,
                         .totals = position.totals,
                         .learning_rate = rate,
                         .train_loss = train_loss};
  training::add_scores(run.setup, row, run.console);
  return row;
}

/// The newest valid state of this folder, else of another run, else a fresh start.
void start_or_resume(Run& run) {
  auto& communicator = *run.setup.communicator;
  auto saved = training::newest_state(run.states, communicator, run.console);
  const bool own = saved.has_value();
  if (!own && !run.options.resume_from.empty()) {
    saved = training::shared_state(communicator, [&run] {
      return std::optional(training::read_run_state(run.options.resume_from));
    });
  }
  if (!saved) return;
  from_checkpoint(*saved, run.setup, run.state);
  if (!own) {
    run.state.curve = {};
    require(run.state.position.epoch < run.options.epochs,
            "stage1",
            "epochs needs more than the ",
            run.state.position.epoch,
            " of --resume_from, received ",
            run.options.epochs);
  }
  training::require_epochs_left(run.state.position, run.options.epochs);
  run.console.line(concat("continuing at epoch ",
                          run.state.position.epoch,
                          ", step ",
                          run.state.position.step,
                          " of ",
                          own ? run.folder.path().string() : run.options.resume_from.string()));
}

bool out_of_patience(const Run& run) {
  const auto patience = run.options.control.early_stopping_patience;
  return patience > 0 && run.state.best.epochs_without() >= patience;
}

/// True when the run is to end here, before its epochs are over.
bool enough(const Run& run) {
  const auto last = run.options.control.stop_at_step;
  return out_of_patience(run) || (last > 0 && run.state.position.step >= last);
}

/// False ends the epoch: in its middle only, its end is every epoch's.
bool after_step(Run& run) {
  save_snapshot_if_due(run);
  const auto& position = run.state.position;
  const auto every = run.options.control.log_loss_every_n_iters;
  if (every > 0 && position.step % every == 0)
    run.console.line(run.log.line(position.step, learning_rate(run)));
  return !enough(run) || position.step_in_epoch == run.setup.steps_per_epoch();
}

/// The validation accuracy of an epoch that is over.
void look_at_validation(Run& run, double accuracy) {
  const auto& control = run.options.control;
  auto& best = run.state.best;
  const bool better = best.add(accuracy, control.early_stopping_min_delta);
  if (better && control.keep_best && run.setup.communicator->rank() == 0) {
    run.writer.submit(
        [&store = run.best, snapshot = training::to_snapshot(run.setup, run.state.position)] {
          store.save(snapshot);
        });
  }
  if (out_of_patience(run)) {
    run.console.line(concat("early stopping: no better validation accuracy in ",
                            best.epochs_without(),
                            " epochs; the best was ",
                            100 * best.accuracy(),
                            " %"));
  }
}

/// An epoch that stop_at_step cuts: a curve row at its part, and a state.
void finish_part(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  run.writer.wait();
  auto row = evaluate(run, position.epoch_sums.mean_loss(), learning_rate(run));
  row.epoch += static_cast<double>(position.step_in_epoch) /
               static_cast<double>(run.setup.steps_per_epoch());
  curve.append(row);
  run.state.curve = curve.prefix();
  run.console.line(training::describe(row, position.epoch_sums.accuracy()));
  save_state(run);
}

training::EpochEnd train_epoch(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  const auto label = concat("epoch ", position.epoch + 1, "/", run.options.epochs);
  const auto end = training::run_epoch(
      run.setup,
      position,
      run.console,
      label,
      [&](const training::Step& step) { return train_step(run, step); },
      [&] { return after_step(run); });
  if (end == training::EpochEnd::stopped) {
    save_state(run);
    return end;
  }
  if (end == training::EpochEnd::enough) {
    finish_part(run, curve);
    return end;
  }
  const auto rate = learning_rate(run);
  const auto train_loss = position.epoch_sums.mean_loss();
  const auto train_accuracy = position.epoch_sums.accuracy();
  training::finish_epoch(position);
  // The state before is durable before this epoch counts as done: no more than one is ever lost.
  run.writer.wait();
  const auto row = evaluate(run, train_loss, rate);
  curve.append(row);
  run.state.curve = curve.prefix();
  run.console.line(training::describe(row, train_accuracy));
  if (run.setup.communicator->size() > 1)
    run.console.line(training::describe(run.buckets.overlap(), run.buckets.count()));
  if (row.validation_accuracy) look_at_validation(run, *row.validation_accuracy);
  if (position.epoch % run.options.saves.checkpoint_every == 0 ||
      position.epoch == run.options.epochs || enough(run))
    save_state(run);
  return end;
}

}  // namespace

training::EpochEnd train(training::Setup& setup,
                         const training::RunFolder& folder,
                         const Options& options,
                         Console& console) {
  validate(options);
  require(options.saves.snapshots_per_epoch <= setup.steps_per_epoch(),
          "stage1",
          "snapshots_per_epoch needs at most the ",
          setup.steps_per_epoch(),
          " steps of an epoch, received ",
          options.saves.snapshots_per_epoch);
  const auto& control = options.control;
  require((control.early_stopping_patience == 0 && !control.keep_best) || setup.validation,
          "stage1",
          "early_stopping_patience and keep_best need validation_fraction > 0");
  Run run{.setup = setup,
          .folder = folder,
          .options = options,
          .console = console,
          .state = {.optimizer = optimizers::name_of(options.optimizer.kind)},
          .snapshots = {folder.snapshots(), options.saves.keep_snapshots},
          .best = {folder.path() / "best", 1},
          .states = {folder.checkpoints(), options.saves.keep_checkpoints},
          .segments = optimizers::segments_of(setup.flat.layout),
          .optimizer = optimizers::make_optimizer(
              options.optimizer, optimizers::segments_of(setup.flat.layout), setup.flat.weights),
          .control = optimizers::StepControl(setup.device),
          .buckets = {*setup.objective, setup.flat, *setup.communicator, options.buckets},
          .writer = checkpoints::BackgroundWriter()};
  run.state.vectors = run.optimizer->vectors();
  start_or_resume(run);
  training::CurveWriter curve(folder.curve(), run.state.curve);
  auto end = training::EpochEnd::finished;
  while (run.state.position.epoch < options.epochs && end == training::EpochEnd::finished &&
         !enough(run))
    end = train_epoch(run, curve);
  run.writer.wait();
  return end == training::EpochEnd::stopped ? end : training::EpochEnd::finished;
}

}  // namespace dimred::stage1
