#include "training/epoch.h"

#include <ATen/record_function.h>

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoints/state.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/stopwatch.h"
#include "training/input/batches.h"
#include "training/input/data_report.h"
#include "training/signals.h"
#include "training/train.h"

namespace dimred::training {
namespace {

/// Whole epochs as they are; a budget's end lies between two.
std::string epoch_text(double epoch) {
  const auto text = significant_text(epoch, 3);
  return std::string(3 - std::min<std::size_t>(text.size(), 3), ' ') + text;
}

/// Reports once why passes are launched kernel by kernel though they should be recorded.
void report_graphs(Model& model, Console& console) {
  if (!model.graphs || model.graphs->reported || model.graphs->failure.empty()) return;
  model.graphs->reported = true;
  console.warn(
      "passes cannot be recorded as a CUDA graph, so their kernels are launched one by one: " +
      model.graphs->failure);
}

/// The next batch and its step, timed, between the hooks. Throws Stopped as next_on_all_ranks()
/// does.
void take_step(Run& run, Stage& stage, Batches& batches) {
  const auto& setup = *run.setup;
  auto& position = run.position;
  run.hooks.call(&Hook::before_step, run.view());
  std::optional<DeviceBatch> batch;
  StepSummary report;
  {
    RECORD_USER_SCOPE("step");
    const Stopwatch clock;
    const double waited_before = batches.seconds_waited();
    batch = next_on_all_ranks(batches, *setup.communicator);
    check(batch.has_value(), "an epoch has fewer batches than steps");
    std::function<void()> prefetch;
    if (!setup.model.device.is_cpu()) prefetch = [&batches] { batches.prefetch(); };
    report.images = batch->global_count;
    report.result = stage.step(run,
                               {.batch = batch->tensors,
                                .global_count = batch->global_count,
                                .key = {position.epoch, position.step_in_epoch},
                                .prefetch_next = prefetch});
    report.seconds = clock.seconds();
    report.data_wait_seconds = batches.seconds_waited() - waited_before;
  }
  // A result that is not finite has no part in the epoch's means.
  if (std::isfinite(report.result.loss_sum)) position.epoch_sums.add(report.result);
  ++position.step_in_epoch;
  ++position.step;
  position.row_due = true;
  position.totals.images += report.images;
  run.hooks.call(&Hook::after_step, run.view(), report, batch->tensors);
  batches.recycle(std::move(*batch));
}

/// Cost of an epoch under way, on top of the run's earlier cost.
class EpochCosts {
 public:
  EpochCosts(const Setup& setup, Totals& totals, const Batches& batches)
      : setup_(setup),
        totals_(totals),
        batches_(batches),
        before_(totals),
        sent_before_(setup.communicator->bytes_sent()) {}

  double seconds() const { return clock_.seconds(); }

  void count_time() {
    totals_.seconds = before_.seconds + clock_.seconds();
    totals_.data_wait_seconds = before_.data_wait_seconds + batches_.seconds_waited();
  }

  void count_bytes() {
    totals_.wire_bytes = before_.wire_bytes + setup_.communicator->bytes_sent() - sent_before_;
  }

  ProgressState progress(const std::string& label, const BatchResult& sums) const {
    const double seconds = clock_.seconds();
    const double images = totals_.images - before_.images;
    const std::int64_t done = sums.sample_count;
    const auto total = setup_.data.train->size();
    return {.label = label,
            .done = done,
            .total = total,
            .loss = sums.mean_loss(),
            .accuracy = sums.accuracy(),
            .images_per_second = images / seconds,
            .compute_per_second = images / (seconds - batches_.seconds_waited()),
            .seconds_left = (total - done) * seconds / images};
  }

 private:
  const Setup& setup_;
  Totals& totals_;
  const Batches& batches_;
  Totals before_;
  std::int64_t sent_before_;
  Stopwatch clock_;
};

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
          .row_due = json.at("row_due"),
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
          "[training] epochs needs to be at least as many as the run has done ({} epochs and {} "
          "steps), received {}",
          position.epoch,
          position.step_in_epoch,
          epochs);
}

std::string describe(const CurveRow& row, double train_accuracy) {
  const auto percent = [](double part) { return decimal_text(100 * part, 2) + " %"; };
  auto text = "epoch " + epoch_text(row.epoch);
  if (row.weights != "raw") text += formatted(" ({})", row.weights);
  if (row.train_loss)
    text += formatted("  train {} / {}", decimal_text(*row.train_loss, 4), percent(train_accuracy));
  if (row.validation_accuracy) text += "  validation " + percent(*row.validation_accuracy);
  if (row.test_accuracy)
    text +=
        formatted("  test {} / {}", decimal_text(*row.test_loss, 4), percent(*row.test_accuracy));
  if (row.learning_rate) text += "  rate " + significant_text(*row.learning_rate, 4);
  const auto& totals = row.totals;
  if (totals.seconds > 0)
    text += formatted("  {} s  {} images/s ({} compute)",
                      decimal_text(totals.seconds, 1),
                      decimal_text(totals.images / totals.seconds, 0),
                      decimal_text(totals.images / (totals.seconds - totals.data_wait_seconds), 0));
  return text;
}

EpochEnd run_epoch(Run& run, Stage& stage) {
  auto& setup = *run.setup;
  auto& position = run.position;
  const auto label = stage.epoch_label(position);
  const auto batches = training_batches(setup, position.epoch, position.step_in_epoch);
  EpochCosts costs(setup, position.totals, *batches);
  const auto steps = setup.data.steps_per_epoch();
  const auto is_enough = [&] {
    return position.step_in_epoch < steps && run.hooks.should_stop(run.view());
  };
  auto end = EpochEnd::finished;
  try {
    bool enough = position.row_due && is_enough();
    while (!enough && position.step_in_epoch < steps) {
      take_step(run, stage, *batches);
      enough = is_enough();
      costs.count_time();
      costs.count_bytes();
      run.console->progress(costs.progress(label, position.epoch_sums));
    }
    // Not only after the evaluation that follows.
    if (enough) {
      end = EpochEnd::enough;
    } else if (stop_agreed(*setup.communicator)) {
      end = EpochEnd::stopped;
    }
  } catch (const Stopped&) {
    end = EpochEnd::stopped;
  }
  costs.count_time();
  // A run that goes on asks all ranks again whether to stop.
  if (end != EpochEnd::stopped) costs.count_bytes();
  run.console->clear();
  report_graphs(setup.model, *run.console);
  report_data(setup, batches->report(), costs.seconds(), *run.console);
  return end;
}

}  // namespace dimred::training
