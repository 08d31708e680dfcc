#include "stage2/train.h"

#include "checkpoints/atomic_file.h"
#include "checkpoints/background_writer.h"
#include "checkpoints/snapshot.h"
#include "stage2/projection_cuda.h"
#include "stage2/state.h"
#include "stage2/telemetry.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/evaluate.h"
#include "training/state.h"

namespace dimred::stage2 {
namespace {

using training::EpochEnd;

struct Run {
  training::Setup& setup;
  const training::RunFolder& folder;
  torch::Tensor basis;  // [k x own columns]
  const TrainOptions& options;
  Console& console;
  TrainState state;
  checkpoints::StateStore states;
  StepCounts counts;
  checkpoints::BackgroundWriter writer;
};

/// Runs a trial as the gradient's own function; unless told otherwise it leaves BatchNorm's running
/// statistics as it found them.
double trial_loss(Run& run, const training::Step& step) {
  auto& flat = run.setup.flat;
  const auto buffers = flat.buffers.clone();
  const auto counters = flat.counters.clone();
  const auto loss = training::loss_only(run.setup, step.batch, step.key).mean_loss();
  ++run.state.position.totals.forward_passes;
  if (run.options.trial_batchnorm_moving) {
    training::share_running_statistics(run.setup);
  } else {
    flat.buffers.copy_(buffers);
    flat.counters.copy_(counters);
  }
  return loss;
}

training::BatchResult train_step(Run& run, StepLog& log, const training::Step& now) {
  auto& setup = run.setup;
  auto& position = run.state.position;
  const auto result = training::loss_and_gradient(setup, now.batch, now.global_count, now.key);
  const BatchLoss batch{
      .loss = result.mean_loss(),
      .gradient = setup.communicator->reduce_scatter(setup.flat.gradient, setup.shards),
      .evaluate = [&] { return trial_loss(run, now); }};
  const auto report = step(run.basis,
                           batch,
                           setup.flat.weights,
                           run.state.step,
                           run.options.step,
                           *setup.communicator,
                           setup.shards);
  ++position.totals.forward_passes;
  ++position.totals.backward_passes;
  position.totals.basis_bytes_read += 2 * static_cast<std::int64_t>(run.basis.nbytes());
  log.append(position, report);
  run.counts.add(report);
  return result;
}

/// A curve row for the present weights.
training::CurveRow evaluate(Run& run,
                            const std::string& weights,
                            std::optional<double> train_loss) {
  const auto& position = run.state.position;
  training::CurveRow row{.stage = "stage2",
                         .method = run.options.method,
                         .weights = weights,
                         .epoch = static_cast<double>(position.epoch),
                         .step = position.step,
                         .totals = position.totals};
  row.train_loss = train_loss;
  training::add_scores(run.setup, row);
  return row;
}

void record(Run& run,
            training::CurveWriter& curve,
            const training::CurveRow& row,
            double train_accuracy) {
  curve.append(row);
  run.state.curve = curve.prefix();
  run.console.line(training::describe(row, train_accuracy));
}

/// The curve and the steps that the state counts are durable before the state is.
void save_state(Run& run, StepLog& log) {
  const ScopedSeconds saving(run.state.position.totals.seconds);
  training::require_equal_weights(run.setup, run.state.position);
  run.state.steps = log.prefix();
  auto saved = to_checkpoint(run.setup, run.state, run.basis);
  if (run.setup.communicator->rank() != 0) return;
  run.writer.submit([&store = run.states, &folder = run.folder, saved = std::move(saved)] {
    checkpoints::sync_file(folder.curve());
    checkpoints::sync_file(folder.steps());
    store.save(saved);
  });
}

EpochEnd train_epoch(Run& run, training::CurveWriter& curve, StepLog& log) {
  auto& position = run.state.position;
  run.counts = {};
  const auto label = concat("stage 2, epoch ", position.epoch + 1, "/", run.options.epochs);
  const auto end = training::run_epoch(
      run.setup,
      position,
      run.console,
      label,
      [&](const training::Step& now) { return train_step(run, log, now); },
      [] {});
  if (end == EpochEnd::finished) {
    const auto sums = position.epoch_sums;
    training::finish_epoch(position);
    // The state before is durable before this epoch counts as done: no more than one is ever lost.
    run.writer.wait();
    record(run, curve, evaluate(run, "raw", sums.mean_loss()), sums.accuracy());
    run.console.line(run.counts.describe());
  }
  save_state(run, log);
  return end;
}

/// Recalibrated running statistics and their curve row, then the final weights as a snapshot.
void finish(Run& run, training::CurveWriter& curve) {
  if (run.options.recalibrate_batchnorm && run.setup.batchnorm_layers > 0) {
    auto& totals = run.state.position.totals;
    {
      const ScopedSeconds recalibrating(totals.seconds);
      training::recalibrate_batchnorm(run.setup);
    }
    totals.forward_passes += run.setup.steps_per_epoch();
    record(run, curve, evaluate(run, "recalibrated", std::nullopt), 0);
  }
  if (run.setup.communicator->rank() == 0) {
    checkpoints::write_snapshot(run.folder.path() / "final.h5",
                                training::to_snapshot(run.setup, run.state.position));
  }
}

/// True when a state of this folder was taken up.
bool resumed(Run& run) {
  const auto saved = training::newest_state(run.states, *run.setup.communicator, run.console);
  if (!saved) return false;
  from_checkpoint(*saved, run.setup, run.basis, run.state);
  training::require_epochs_left(run.state.position, run.options.epochs);
  run.console.line(
      concat("continuing at epoch ", run.state.position.epoch, ", step ", run.state.position.step));
  return true;
}

/// P as a tensor. On the CPU it borrows the basis's memory; on a device the host copy is not kept.
torch::Tensor tensor_of(pca::Basis& basis, const torch::Device& device) {
  const bool wide = basis.dtype == pca::BasisDtype::float32;
  void* values = wide ? static_cast<void*>(basis.values.data()) : basis.bfloats.data();
  auto matrix = torch::from_blob(
      values, {basis.components, basis.columns}, wide ? torch::kFloat32 : torch::kBFloat16);
  if (device.is_cpu()) return matrix;
  matrix = matrix.to(device);
  basis = {};
  return matrix;
}

void start_fresh(Run& run, const training::Weights& start) {
  training::apply(run.setup, start);
  if (run.options.recalibrate_batchnorm && start.needs_recalibration)
    training::recalibrate_batchnorm(run.setup);
}

}  // namespace

EpochEnd train(training::Setup& setup,
               const training::RunFolder& folder,
               pca::Basis basis,
               const training::Weights& start,
               const TrainOptions& options,
               Console& console) {
  validate(options.step);
  const auto k = basis.components;
  require(setup.device.is_cpu() || k <= cuda::max_components,
          "stage2",
          "needs at most ",
          cuda::max_components,
          " components on a CUDA device, received ",
          k);
  const auto own = setup.own_columns(setup.flat.gradient);
  Run run{.setup = setup,
          .folder = folder,
          .basis = tensor_of(basis, setup.device),
          .options = options,
          .console = console,
          .state = {.step = initial_state(k, own)},
          .states = {folder.checkpoints(), options.keep_checkpoints},
          .counts = {},
          .writer = checkpoints::BackgroundWriter()};
  const bool fresh = !resumed(run);
  if (fresh) start_fresh(run, start);
  training::CurveWriter curve(folder.curve(), run.state.curve);
  StepLog log(folder.steps(), run.state.steps);
  if (fresh) record(run, curve, evaluate(run, start.kind, std::nullopt), 0);
  auto end = EpochEnd::finished;
  while (run.state.position.epoch < options.epochs && end == EpochEnd::finished)
    end = train_epoch(run, curve, log);
  if (end == EpochEnd::finished) finish(run, curve);
  run.writer.wait();
  return end;
}

}  // namespace dimred::stage2
