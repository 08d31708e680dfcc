#include "stage1/train.h"

#include "checkpoints/atomic_file.h"
#include "checkpoints/background_writer.h"
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
  checkpoints::SnapshotStore snapshots;
  checkpoints::StateStore states;
  std::vector<optimizers::DecayRange> ranges;
  training::GradientBuckets buckets;
  checkpoints::BackgroundWriter writer;
};

double learning_rate(const Run& run) {
  return schedules::learning_rate(run.options.schedule,
                                  static_cast<double>(run.state.position.step),
                                  static_cast<double>(run.setup.steps_per_epoch()));
}

/// Loss and gradient of the batch, summed over ranks, and the optimiser's step.
training::BatchResult train_step(Run& run, const training::Step& step) {
  auto& flat = run.setup.flat;
  const auto result =
      training::loss_and_gradient(run.setup, step.batch, step.global_count, step.key, &run.buckets);
  run.buckets.finish();
  optimizers::sgd_step(flat.weights,
                       flat.gradient,
                       run.state.momentum,
                       run.ranges,
                       learning_rate(run),
                       run.options.sgd);
  auto& totals = run.state.position.totals;
  ++totals.forward_passes;
  ++totals.backward_passes;
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

training::CurveRow evaluate(Run& run, double train_loss, double rate) {
  const auto& position = run.state.position;
  training::CurveRow row{.stage = "stage1",
                         .method = "sgd",
                         .epoch = static_cast<double>(position.epoch),
                         .step = position.step,
                         .totals = position.totals,
                         .learning_rate = rate,
                         .train_loss = train_loss};
  training::add_scores(run.setup, row);
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

training::EpochEnd train_epoch(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  const auto label = concat("epoch ", position.epoch + 1, "/", run.options.epochs);
  const auto end = training::run_epoch(
      run.setup,
      position,
      run.console,
      label,
      [&](const training::Step& step) { return train_step(run, step); },
      [&] {
        save_snapshot_if_due(run);
        return true;
      });
  if (end == training::EpochEnd::stopped) {
    save_state(run);
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
  if (position.epoch % run.options.saves.checkpoint_every == 0 ||
      position.epoch == run.options.epochs)
    save_state(run);
  return end;
}

}  // namespace

void validate(const Options& options) {
  constexpr auto place = "stage1";
  require(options.epochs >= 1, place, "epochs needs >= 1, received ", options.epochs);
  schedules::validate(options.schedule);
  optimizers::validate(options.sgd);
  const auto& saves = options.saves;
  require(saves.snapshots_per_epoch >= 0,
          place,
          "snapshots_per_epoch needs >= 0, received ",
          saves.snapshots_per_epoch);
  require(saves.snapshot_from_epoch >= 1,
          place,
          "snapshot_from_epoch needs >= 1, received ",
          saves.snapshot_from_epoch);
  require(saves.checkpoint_every >= 1,
          place,
          "checkpoint_every needs >= 1, received ",
          saves.checkpoint_every);
}

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
  Run run{.setup = setup,
          .folder = folder,
          .options = options,
          .console = console,
          .state = {.momentum = torch::zeros_like(setup.flat.weights)},
          .snapshots = {folder.snapshots(), options.saves.keep_snapshots},
          .states = {folder.checkpoints(), options.saves.keep_checkpoints},
          .ranges = optimizers::decay_ranges(setup.flat.layout),
          .buckets = {*setup.objective, setup.flat, *setup.communicator, options.buckets},
          .writer = checkpoints::BackgroundWriter()};
  start_or_resume(run);
  training::CurveWriter curve(folder.curve(), run.state.curve);
  auto end = training::EpochEnd::finished;
  while (run.state.position.epoch < options.epochs && end == training::EpochEnd::finished)
    end = train_epoch(run, curve);
  run.writer.wait();
  return end;
}

}  // namespace dimred::stage1
