#include "training/epoch.h"

#include <ATen/record_function.h>

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoints/state.h"
#include "support/errors.h"
#include "support/stopwatch.h"
#include "training/batches.h"
#include "training/data_report.h"
#include "training/hooks.h"
#include "training/signals.h"

namespace dimred::training {
namespace {

ProgressState progress_of(const Setup& setup,
                          const Position& position,
                          const std::string& label,
                          double seconds,
                          double waited,
                          std::int64_t images) {
  ProgressState state{.label = label,
                      .done = static_cast<std::int64_t>(position.epoch_sums.sample_count),
                      .total = setup.train->size()};
  state.loss = position.epoch_sums.mean_loss();
  state.accuracy = position.epoch_sums.accuracy();
  const auto count = static_cast<double>(images);
  state.images_per_second = count / seconds;
  state.compute_per_second = count / (seconds - waited);
  state.seconds_left = static_cast<double>(state.total - state.done) * seconds / count;
  return state;
}

/// Whole epochs as they are; a budget's end lies between two.
std::string epoch_text(double epoch) {
  std::ostringstream out;
  out << std::setprecision(3) << epoch;
  return out.str();
}

/// What is not finite has no part in the means of the epoch.
void add(BatchResult& sums, const BatchResult& result) {
  if (!std::isfinite(result.loss_sum)) return;
  sums.loss_sum += result.loss_sum;
  sums.correct_count += result.correct_count;
  sums.sample_count += result.sample_count;
}

/// A step that was made, and the batch that its report's images are of.
struct DoneStep {
  DeviceBatch batch;
  StepReport report;
};

/// Once, why passes are launched kernel by kernel though they should be recorded.
void tell_of_graphs(Setup& setup, Console& console) {
  if (!setup.graphs || setup.graphs->told || setup.graphs->failure.empty()) return;
  setup.graphs->told = true;
  console.warn("not recorded as a CUDA graph, and launched kernel by kernel: " +
               setup.graphs->failure);
}

/// The next batch and its step, timed. Throws Stopped as next_of_all() does.
DoneStep one_step(const Setup& setup,
                  Position& position,
                  Batches& batches,
                  const std::function<BatchResult(const Step&)>& step) {
  RECORD_USER_SCOPE("step");
  const Stopwatch clock;
  const double waited_before = batches.seconds_waited();
  auto batch = next_of_all(batches, *setup.communicator);
  check(batch.has_value(), "an epoch has fewer batches than steps");
  std::function<void()> look_ahead;
  if (!setup.device.is_cpu()) look_ahead = [&batches] { batches.look_ahead(); };
  const Step now{.batch = batch->tensors,
                 .global_count = batch->global_count,
                 .key = {position.epoch, position.step_in_epoch},
                 .meanwhile = look_ahead};
  StepReport report{.result = step(now), .images = batch->global_count, .batch = now.batch};
  add(position.epoch_sums, report.result);
  report.seconds = clock.seconds();
  report.data_wait_seconds = batches.seconds_waited() - waited_before;
  return {std::move(*batch), std::move(report)};
}

}  // namespace

nlohmann::json to_json(const Position& position) {
  const auto& sums = position.epoch_sums;
  return {{"epoch", position.epoch},
          {"step_in_epoch", position.step_in_epoch},
          {"step", position.step},
          {"loss_sum", sums.loss_sum},
          {"correct_count", sums.correct_count},
          {"sample_count", sums.sample_count},
          {"row_due", position.row_due},
          {"totals", to_json(position.totals)}};
}

Position position_from_json(const nlohmann::json& json) {
  using checkpoints::count_of;
  return {.epoch = count_of(json, "epoch"),
          .step_in_epoch = count_of(json, "step_in_epoch"),
          .step = count_of(json, "step"),
          .epoch_sums = {json.at("loss_sum"), json.at("correct_count"), json.at("sample_count")},
          .row_due = json.value("row_due", false),
          .totals = totals_from_json(json.at("totals"))};
}

void finish_epoch(Position& position) {
  ++position.epoch;
  position.step_in_epoch = 0;
  position.epoch_sums = {};
}

void require_epochs_left(const Position& position, std::int64_t epochs) {
  const bool further =
      position.epoch > epochs || (position.epoch == epochs && position.step_in_epoch > 0);
  require(!further,
          "[training] epochs needs at least what the run has done ({} epochs and {} steps), "
          "received {}",
          position.epoch,
          position.step_in_epoch,
          epochs);
}

std::string describe(const CurveRow& row, double train_accuracy) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << "epoch " << std::setw(3) << epoch_text(row.epoch);
  if (row.weights != "raw") out << " (" << row.weights << ')';
  if (row.train_loss)
    out << "  train " << std::setprecision(4) << *row.train_loss << std::setprecision(2) << " / "
        << 100 * train_accuracy << " %";
  if (row.validation_accuracy) out << "  validation " << 100 * *row.validation_accuracy << " %";
  if (row.test_accuracy)
    out << "  test " << std::setprecision(4) << *row.test_loss << std::setprecision(2) << " / "
        << 100 * *row.test_accuracy << " %";
  if (row.learning_rate)
    out << "  rate " << std::defaultfloat << std::setprecision(4) << *row.learning_rate
        << std::fixed;
  const auto& totals = row.totals;
  if (totals.seconds > 0) {
    out << std::setprecision(1) << "  " << totals.seconds << " s  " << std::setprecision(0)
        << static_cast<double>(totals.images) / totals.seconds << " images/s ("
        << static_cast<double>(totals.images) / (totals.seconds - totals.data_wait_seconds)
        << " compute)";
  }
  return out.str();
}

EpochEnd run_epoch(const RunView& run,
                   Position& position,
                   const std::string& label,
                   const std::function<BatchResult(const Step&)>& step,
                   Hooks& hooks) {
  auto& setup = run.setup;
  const auto order = training_order(setup);
  const auto batches = make_batches(setup,
                                    *setup.train,
                                    order,
                                    setup.preprocessing,
                                    loader_options(setup),
                                    position.epoch,
                                    position.step_in_epoch);
  const Totals before = position.totals;
  const auto sent_before = setup.communicator->bytes_sent();
  const Stopwatch clock;
  const auto count_time = [&] {
    position.totals.seconds = before.seconds + clock.seconds();
    position.totals.data_wait_seconds = before.data_wait_seconds + batches->seconds_waited();
  };
  const auto count_bytes = [&] {
    position.totals.wire_bytes = before.wire_bytes + setup.communicator->bytes_sent() - sent_before;
  };
  const auto steps = setup.steps_per_epoch();
  const auto is_enough = [&] { return position.step_in_epoch < steps && hooks.want_end(run); };
  const auto next_step = [&] {
    hooks.before_step(run);
    auto done = one_step(setup, position, *batches, step);
    ++position.step_in_epoch;
    ++position.step;
    position.row_due = true;
    position.totals.images += done.report.images;
    hooks.after_step(run, done.report);
    batches->recycle(std::move(done.batch));
  };
  bool stopping = false;
  bool enough = position.row_due && is_enough();
  try {
    while (!enough && position.step_in_epoch < steps) {
      next_step();
      enough = is_enough();
      count_time();
      count_bytes();
      run.console.progress(progress_of(setup,
                                       position,
                                       label,
                                       clock.seconds(),
                                       batches->seconds_waited(),
                                       position.totals.images - before.images));
    }
    // Not only after the evaluation that follows.
    stopping = !enough && stop_agreed(*setup.communicator);
  } catch (const Stopped&) {
    stopping = true;
  }
  count_time();
  if (!stopping) count_bytes();  // the run that goes on asks all ranks again whether to stop
  run.console.clear();
  tell_of_graphs(setup, run.console);
  tell(setup, batches->report(), clock.seconds(), run.console);
  if (enough) return EpochEnd::enough;
  return stopping ? EpochEnd::stopped : EpochEnd::finished;
}

}  // namespace dimred::training
