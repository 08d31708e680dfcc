#include "run/train.h"

#include "run/scores.h"
#include "run/state.h"
#include "support/agreement.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::run {
namespace {

/// The newest valid state of this folder, else of the run to continue, else none; `from` becomes
/// its run.
std::optional<checkpoints::State> find_state(Run& run, std::filesystem::path& from) {
  auto saved = newest_state(run.states, *run.setup, *run.console);
  if (!saved) on_rank_0(*run.setup->communicator, [&] { run.folder->require_states_of_earlier(); });
  if (saved) {
    from = run.folder->path();
  } else if (!run.resume_from.empty()) {
    from = run.resume_from;
    saved = shared_state(*run.setup, [&] { return std::optional(read_run_state(from)); });
  }
  return saved;
}

/// Throws std::invalid_argument when the run has gone further than `epochs` already.
void require_epochs_left(const Position& position, std::int64_t epochs) {
  const bool further =
      position.epoch > epochs || (position.epoch == epochs && position.step_in_epoch > 0);
  require(!further,
          "[training] epochs needs to be larger, because the run has finished {} epochs and {} "
          "steps; received {}",
          position.epoch,
          position.step_in_epoch,
          epochs);
}

void restore(Run& run, Stage& stage, const checkpoints::State& saved, bool own) {
  auto& position = run.position;
  position = restore_network(saved, stage.named_row(run).stage, *run.setup);
  run.record.run = checkpoints::identity_of(saved.scalars.dump());  // an older run's is not known
  if (own) run.curve_prefix = prefix_from_json(saved.scalars.at("curve"));
  stage.restore(run, saved);
  run.hooks.call(&Hook::restore, *run.setup, saved, own);
  if (!stage.epochs()) return;
  require(own || position.epoch < *stage.epochs(),
          "[training] epochs needs to be more than the {} epochs of --resume_from, received {}",
          position.epoch,
          *stage.epochs());
  require_epochs_left(position, *stage.epochs());
}

/// Whether nothing is left to do.
bool has_ended(Run& run, const Stage& stage) {
  return !run.position.row_due &&
         (stage.is_done(run.position) || run.hooks.should_stop(run.view()));
}

void start_or_resume(Run& run, Stage& stage) {
  std::filesystem::path from;
  const auto saved = find_state(run, from);
  stage.prepare(run, from);
  auto curve = run.folder->curve();
  if (saved) {
    restore(run, stage, *saved, from == run.folder->path());
    curve.run_ended = has_ended(run, stage);
    run.console->line(formatted("{} at epoch {}, step {} of {}",
                                curve.run_ended ? "finished already," : "continuing",
                                run.position.epoch,
                                run.position.step,
                                from));
  }
  run.curve.emplace(curve, run.curve_prefix);
  stage.open_files(run);
  if (!saved) stage.start(run);
}

/// The files that the state counts are durable before the state is.
void save_state(Run& run, Stage& stage) {
  require_equal_weights(*run.setup, run.position);
  const ScopedSeconds saving(run.position.totals.seconds);
  auto saved = network_state(*run.setup, stage.named_row(run).stage, run.position, run.record);
  saved.scalars["curve"] = to_json(run.curve_prefix);
  stage.save(run, saved);
  run.hooks.call(&Hook::save, run.view(), saved);
  if (run.setup->communicator->rank() != 0) return;
  run.writer.submit([&store = run.states, &folder = *run.folder, saved = std::move(saved)] {
    for (const auto& file : {folder.curve().path, folder.steps().path})
      if (std::filesystem::exists(file)) sync_file(file);
    store.save(saved);
  });
}

CurveRow scored_row(Run& run, Stage& stage) {
  const auto& position = run.position;
  const double steps = run.setup->data.steps_per_epoch();
  auto row = stage.named_row(run);
  row.epoch = position.epoch + position.step_in_epoch / steps;
  row.step = position.step;
  row.totals = position.totals;
  add_scores(*run.setup, row, *run.console);
  stage.see_row(row);
  return row;
}

void record(Run& run, const CurveRow& row, double train_accuracy) {
  run.curve->append(row);
  run.curve_prefix = run.curve->prefix();
  run.console->line(describe(row, train_accuracy));
}

/// Closes the epoch under way: counts it, and zeroes its sums.
void finish_epoch(Position& position) {
  ++position.epoch;
  position.step_in_epoch = 0;
  position.epoch_sums = {};
}

/// None when no batch of the epoch had a loss that is finite.
std::optional<double> mean_loss(const engine::BatchResult& sums) {
  return sums.sample_count > 0 ? std::optional(sums.mean_loss()) : std::nullopt;
}

/// Rows of the present weights and those of the hooks, at an epoch's end or in its middle.
void evaluate_epoch(Run& run, Stage& stage) {
  auto& position = run.position;
  const auto sums = position.epoch_sums;
  const bool whole = position.step_in_epoch == run.setup->data.steps_per_epoch();
  if (whole) finish_epoch(position);
  // The state before is durable before this epoch counts as done: no more than one is ever lost.
  wait_for(run.writer, *run.setup);
  std::vector<CurveRow> rows{scored_row(run, stage)};
  rows.front().train_loss = mean_loss(sums);
  run.hooks.call(&Hook::evaluate, run.view(), rows);
  for (const auto& row : rows) record(run, row, sums.accuracy());
  position.row_due = false;
  stage.describe_epoch(run);
  if (run.setup->model.loss_scale.active())
    run.console->line(engine::describe(run.setup->model.loss_scale));
  if (whole) run.hooks.call(&Hook::after_epoch, run.view(), rows.front());
}

bool is_state_due(Run& run, const Stage& stage, EpochEnd end) {
  return end != EpochEnd::finished || run.position.epoch % run.checkpoint_every == 0 ||
         stage.is_done(run.position) || run.hooks.should_stop(run.view());
}

EpochEnd train_epoch(Run& run, Stage& stage) {
  auto end = run_epoch(run, stage);
  const auto trained = run.position;
  try {
    if (end != EpochEnd::stopped) evaluate_epoch(run, stage);
  } catch (const engine::Stopped&) {
    run.position = trained;  // a resume begins with the evaluation
    end = EpochEnd::stopped;
  }
  if (is_state_due(run, stage, end)) save_state(run, stage);
  return end;
}

EpochEnd train_epochs(Run& run, Stage& stage) {
  const auto goes_on = [&] {
    return run.position.row_due ||
           (!stage.is_done(run.position) && !run.hooks.should_stop(run.view()));
  };
  while (goes_on()) {
    const auto end = train_epoch(run, stage);
    if (end == EpochEnd::stopped) return end;
    if (end == EpochEnd::enough) break;
  }
  stage.finish(run);
  return EpochEnd::finished;
}

}  // namespace

EpochEnd train(Run& run, Stage& stage) {
  const auto& data = run.setup->data;
  run.console->line("training set: " + data.train->title());
  if (data.test) run.console->line("test set: " + data.test->title());
  if (!data.test)
    run.console->line(formatted("no test set: the curve's test columns stay empty{}",
                                data.validation
                                    ? ""
                                    : "; give a test set with --test_data, or hold out a part of "
                                      "the training set with --validation_fraction 0.1"));
  try {
    start_or_resume(run, stage);
  } catch (const engine::Stopped&) {  // before the first step: there is nothing to save
    return EpochEnd::stopped;
  }
  run.hooks.call(&Hook::begin, run.view());
  auto end = EpochEnd::stopped;
  try {
    end = train_epochs(run, stage);
  } catch (const engine::Stopped&) {  // in the stage's end, with which a resume begins
  }
  wait_for(run.writer, *run.setup);
  run.hooks.call(&Hook::end, run.view());
  return end;
}

void add_row(Run& run, Stage& stage, const std::string& weights) {
  auto row = scored_row(run, stage);
  row.weights = weights;
  record(run, row, /*train_accuracy=*/0);
}

}  // namespace dimred::run
