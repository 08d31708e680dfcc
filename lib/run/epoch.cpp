#include "run/epoch.h"

#include <ATen/record_function.h>

#include <cmath>
#include <optional>
#include <string>

#include "engine/input/batches.h"
#include "run/data_report.h"
#include "run/signals.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::run {
namespace {

/// Reports once why passes are launched kernel by kernel though they should be recorded.
void report_graphs(engine::Model& model, Console& console) {
  if (!model.graphs || model.graphs->reported || model.graphs->failure.empty()) return;
  model.graphs->reported = true;
  console.warn(
      "dimred cannot record the passes as a CUDA graph, so it launches the kernels one by one: " +
      model.graphs->failure);
}

/// The next batch and the step on it, timed, between the hooks. Throws Stopped as
/// next_on_all_ranks() does.
void take_step(Run& run, Stage& stage, engine::Batches& batches) {
  const auto& setup = *run.setup;
  auto& position = run.position;
  run.hooks.call(&Hook::before_step, run.view());
  std::optional<engine::DeviceBatch> batch;
  StepSummary report;
  {
    RECORD_USER_SCOPE("step");
    const Stopwatch clock;
    const double waited_before = batches.seconds_waited();
    batch = engine::next_on_all_ranks(setup, batches);
    check(batch.has_value(), "an epoch has fewer batches than steps");
    batch->key = {position.epoch, position.step_in_epoch};
    report.result = stage.step(run, *batch);
    report.seconds = clock.seconds();
    report.data_wait_seconds = batches.seconds_waited() - waited_before;
  }
  // A result that is not finite has no part in the epoch's means.
  if (std::isfinite(report.result.loss_sum)) position.epoch_sums.add(report.result);
  ++position.step_in_epoch;
  ++position.step;
  position.row_due = true;
  position.totals.images += batch->global_count;
  run.hooks.call(&Hook::after_step, run.view(), report, batch->tensors);
  batches.recycle(std::move(*batch));
}

/// Cost of an epoch under way, on top of the run's earlier cost.
class EpochCosts {
 public:
  EpochCosts(const engine::Setup& setup, Totals& totals, const engine::Batches& batches)
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

  ProgressState progress(const std::string& label, const engine::BatchResult& sums) const {
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
  const engine::Setup& setup_;
  Totals& totals_;
  const engine::Batches& batches_;
  Totals before_;
  std::int64_t sent_before_;
  Stopwatch clock_;
};

}  // namespace

EpochEnd run_epoch(Run& run, Stage& stage) {
  auto& setup = *run.setup;
  auto& position = run.position;
  const auto label = stage.epoch_label(position);
  const auto batches = engine::training_batches(setup, position.epoch, position.step_in_epoch);
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
  } catch (const engine::Stopped&) {
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

}  // namespace dimred::run
