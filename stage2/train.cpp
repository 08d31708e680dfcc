#include "stage2/train.h"

#include <cmath>

#include "checkpoints/background_writer.h"
#include "checkpoints/snapshot.h"
#include "distributed/agreement.h"
#include "stage2/network_space.h"
#include "stage2/state.h"
#include "stage2/telemetry.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/evaluate.h"
#include "training/signals.h"
#include "training/state.h"

namespace dimred::stage2 {
namespace {

using training::EpochEnd;

struct Run {
  training::Setup& setup;
  const training::RunFolder& folder;
  const TrainOptions& options;
  Console& console;
  NetworkSpace space;
  std::unique_ptr<method::Method> method;
  TrainState state;
  checkpoints::StateStore states;
  StepCounts counts;
  training::Hooks hooks;
  checkpoints::BackgroundWriter writer;  // the last: what it still has to do needs the others
};

training::RunView view(Run& run) {
  return {.setup = run.setup,
          .position = run.state.position,
          .folder = run.folder,
          .console = run.console,
          .writer = run.writer};
}

constexpr int most_not_finite = 10;

/// A guarded method may pass over a bad batch; weights that are too far off pass over all of them.
/// So at most `most` steps in a row may meet what is not finite, and not the last one.
void require_finite(const Run& run, int most) {
  const auto& position = run.state.position;
  require_environment(run.state.not_finite < most,
                      "[stage2] the last {} steps met a loss or gradient that is not finite, up to "
                      "step {}; a lower learning rate or alpha may help",
                      run.state.not_finite,
                      position.step);
}

/// In [0, 1]: of the budget, or of the epochs.
double progress_of(const Run& run) {
  const auto& position = run.state.position;
  const auto steps = run.setup.steps_per_epoch();
  const auto& options = run.options;
  const double done = options.budget > 0
                          ? spent(position.totals, options.budget_steps) / options.budget
                          : static_cast<double>(position.epoch * steps + position.step_in_epoch) /
                                static_cast<double>(options.epochs * steps);
  return std::min(1.0, done);
}

bool is_spent(const Run& run) {
  if (run.options.budget <= 0) return run.state.position.epoch >= run.options.epochs;
  return spent(run.state.position.totals, run.options.budget_steps) >= run.options.budget;
}

/// Ends the run within an epoch when its budget is spent.
class BudgetEnd final : public training::Hook {
 public:
  BudgetEnd(double budget, std::int64_t steps) : budget_(budget), steps_(steps) {}
  bool wants_end(const training::RunView& run) const override {
    return spent(run.position.totals, steps_) >= budget_;
  }

 private:
  double budget_;
  std::int64_t steps_;
};

void add_hooks(Run& run) {
  const auto& options = run.options;
  if (options.budget > 0)
    run.hooks.add(std::make_unique<BudgetEnd>(options.budget, options.budget_steps));
  training::add_hooks(run.hooks, options.hooks, run.setup.communicator->size());
}

Descent descent(Run& run) {
  const auto& options = run.options;
  const bool by_budget = options.budget > 0;
  return {.method = *run.method,
          .space = run.space,
          .length = by_budget ? options.budget : static_cast<double>(options.epochs),
          .has_length =
              has_length(options.method) || options.average.kind != method::AverageKind::none};
}

/// Counts a bad step, and lowers the loss scale after an overflow.
void judge(Run& run, const method::StepReport& report, const training::BatchResult& result) {
  auto& scale = run.setup.loss_scale;
  const bool finite_loss = std::isfinite(result.loss_sum);
  const bool overflow = report.not_finite && finite_loss;
  if (finite_loss) {
    scale.update(overflow);
  } else {
    run.space.restore_statistics();  // whatever made the loss so has passed through BatchNorm, too
  }
  const bool hopeless = report.not_finite && !(overflow && scale.can_fall());
  run.state.not_finite = hopeless ? run.state.not_finite + 1 : 0;
  require_finite(run, most_not_finite);
}

training::BatchResult train_step(Run& run, StepLog& log, const training::Step& now) {
  auto& setup = run.setup;
  auto& totals = run.state.position.totals;
  run.space.use(now);
  const auto report = run.method->step(run.space, progress_of(run));
  const auto passes = run.space.take_passes();
  totals.forward_passes += passes.forward;
  totals.backward_passes += passes.backward;
  totals.basis_bytes_read += (2 + report.gradients) * run.space.subspace().bytes();
  add(run.state.average,
      run.options.average,
      own_columns(setup.flat.weights, setup.columns),
      progress_of(run));
  log.append(run.state.position, report);
  run.counts.add(report);
  const auto result = run.space.result();
  judge(run, report, result);
  return result;
}

/// A curve row for the present weights.
training::CurveRow evaluate(Run& run,
                            const std::string& weights,
                            std::optional<double> train_loss) {
  const auto& position = run.state.position;
  const auto steps = static_cast<double>(run.setup.steps_per_epoch());
  training::CurveRow row{.stage = "stage2",
                         .method = run.options.label,
                         .weights = weights,
                         .epoch = static_cast<double>(position.epoch) +
                                  static_cast<double>(position.step_in_epoch) / steps,
                         .step = position.step,
                         .totals = position.totals};
  row.train_loss = train_loss;
  training::add_scores(run.setup, row, run.console);
  require_environment(!row.test_loss || std::isfinite(*row.test_loss),
                      "[stage2] the test loss is not finite at step {}; earlier files are kept; a "
                      "lower learning rate or alpha may help",
                      position.step);
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
  auto saved = to_checkpoint(run.setup, run.state, descent(run));
  run.hooks.save(view(run), saved);
  if (run.setup.communicator->rank() != 0) return;
  run.writer.submit([&store = run.states, &folder = run.folder, saved = std::move(saved)] {
    sync_file(folder.curve());
    sync_file(folder.steps());
    store.save(saved);
  });
}

/// None when no batch of the epoch had a loss that is finite.
std::optional<double> mean_loss(const training::BatchResult& sums) {
  return sums.sample_count > 0 ? std::optional(sums.mean_loss()) : std::nullopt;
}

/// Rows of the present weights, and those of the hooks.
void finish_epoch(Run& run, training::CurveWriter& curve) {
  auto& position = run.state.position;
  const auto sums = position.epoch_sums;
  const bool whole = position.step_in_epoch == run.setup.steps_per_epoch();
  if (whole) training::finish_epoch(position);
  // The state before is durable before this epoch counts as done: no more than one is ever lost.
  training::wait_for(run.writer, run.setup);
  std::vector<training::CurveRow> rows{evaluate(run, "raw", mean_loss(sums))};
  run.hooks.evaluate(view(run), rows);
  for (const auto& row : rows) record(run, curve, row, sums.accuracy());
  position.row_due = false;
  run.console.line(run.counts.describe());
  if (run.setup.loss_scale.active()) run.console.line(training::describe(run.setup.loss_scale));
  if (whole) run.hooks.after_epoch(view(run), rows.front());
}

EpochEnd train_epoch(Run& run, training::CurveWriter& curve, StepLog& log) {
  auto& position = run.state.position;
  run.counts = {};
  const auto of = run.options.budget > 0 ? std::string() : formatted("/{}", run.options.epochs);
  const auto label = formatted("stage 2, epoch {}{}", position.epoch + 1, of);
  auto end = training::run_epoch(
      view(run),
      position,
      label,
      [&](const training::Step& now) { return train_step(run, log, now); },
      run.hooks);
  const auto trained = position;
  try {
    if (end != EpochEnd::stopped) finish_epoch(run, curve);
  } catch (const training::Stopped&) {
    position = trained;  // a resume begins with the evaluation
    end = EpochEnd::stopped;
  }
  save_state(run, log);
  return end;
}

/// Running statistics estimated anew for the present weights, where the network has any.
bool recalibrate(Run& run) {
  if (!run.options.recalibrate_batchnorm || run.setup.batchnorm_layers == 0) return false;
  auto& totals = run.state.position.totals;
  const ScopedSeconds recalibrating(totals.seconds);
  training::recalibrate_batchnorm(run.setup);
  totals.forward_passes += run.setup.steps_per_epoch();
  return true;
}

/// Rows of the recalibrated and of the averaged weights, then the weights of the last row as a
/// snapshot.
void finish(Run& run, training::CurveWriter& curve) {
  require_finite(run, 1);
  if (recalibrate(run)) record(run, curve, evaluate(run, "recalibrated", std::nullopt), 0);
  const auto& average = run.state.average;
  if (average.count > 0) {
    const torch::NoGradGuard no_grad;
    run.setup.flat.weights.copy_(
        all_gather(*run.setup.communicator, average.values, run.setup.columns));
    recalibrate(run);
    record(run, curve, evaluate(run, name(run.options.average.kind), std::nullopt), 0);
  }
  const auto last = training::start_snapshot(run.setup, run.state.position);
  distributed::on_rank_0(*run.setup.communicator, [&] {
    checkpoints::write_snapshot(run.folder.path() / "final.h5", last());
    return std::string();
  });
}

/// True when a state of this folder was taken up.
bool resumed(Run& run) {
  const auto saved = training::newest_state(run.states, run.setup, run.console);
  if (!saved) return false;
  from_checkpoint(*saved, run.setup, run.state, descent(run));
  run.hooks.restore(run.setup, *saved, /*own=*/true);
  if (run.options.budget <= 0)
    training::require_epochs_left(run.state.position, run.options.epochs);
  run.console.line(formatted(
      "continuing at epoch {}, step {}", run.state.position.epoch, run.state.position.step));
  return true;
}

void start_fresh(Run& run, training::CurveWriter& curve, const StartWeights& start) {
  training::apply(run.setup, start.weights);
  run.state.position.totals = start.cost;
  if (run.options.recalibrate_batchnorm && start.weights.needs_recalibration) {
    const ScopedSeconds recalibrating(run.state.position.totals.seconds);
    training::recalibrate_batchnorm(run.setup);
  }
  record(run, curve, evaluate(run, start.weights.kind, std::nullopt), 0);
}

/// The epochs, and what follows the last.
EpochEnd train_epochs(Run& run, training::CurveWriter& curve, StepLog& log) {
  const auto goes_on = [&] {
    return run.state.position.row_due || (!is_spent(run) && !run.hooks.want_end(view(run)));
  };
  auto end = EpochEnd::finished;
  while (end == EpochEnd::finished && goes_on()) end = train_epoch(run, curve, log);
  if (end == EpochEnd::stopped) return end;
  try {
    finish(run, curve);
  } catch (const training::Stopped&) {  // a resume begins with it
    return EpochEnd::stopped;
  }
  return EpochEnd::finished;
}

}  // namespace

double spent(const training::Totals& totals, std::int64_t steps_per_epoch) {
  constexpr double backward_cost = 2;  // forward passes
  return (static_cast<double>(totals.forward_passes) +
          backward_cost * static_cast<double>(totals.backward_passes)) /
         ((1 + backward_cost) * static_cast<double>(steps_per_epoch));
}

EpochEnd train(training::Setup& setup,
               const training::RunFolder& folder,
               Subspace subspace,
               const std::optional<StartWeights>& start,
               const TrainOptions& options,
               Console& console) {
  const auto own = distributed::own_columns(setup.flat.gradient, setup.columns);
  subspace.own_columns = own.numel();  // also without a matrix
  Run run{.setup = setup,
          .folder = folder,
          .options = options,
          .console = console,
          .space = {setup, std::move(subspace), options.penalty, options.trial_batchnorm_moving},
          .method = {},
          .state = {.average = make_average(options.average, own)},
          .states = {folder.checkpoints(), options.keep_checkpoints},
          .counts = {},
          .hooks = {},
          .writer = checkpoints::BackgroundWriter()};
  run.method = make_method(options.method, run.space.block_sizes());
  add_hooks(run);
  const bool fresh = !resumed(run);
  training::CurveWriter curve(folder.curve(), run.state.curve);
  StepLog log(folder.steps(), run.state.steps);
  check(!fresh || start.has_value(), "neither a state nor a start");
  try {
    if (fresh) start_fresh(run, curve, *start);
  } catch (const training::Stopped&) {  // before the first step: there is nothing to save
    return EpochEnd::stopped;
  }
  run.hooks.begin(view(run));
  const auto end = train_epochs(run, curve, log);
  training::wait_for(run.writer, run.setup);
  run.hooks.end(view(run));
  return end;
}

}  // namespace dimred::stage2
