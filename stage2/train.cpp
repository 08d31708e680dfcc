#include "stage2/train.h"

#include <algorithm>
#include <cmath>

#include "checkpoints/snapshot.h"
#include "engine/evaluate.h"
#include "method/make_method.h"
#include "run/state.h"
#include "run/train.h"
#include "stage2/network_space.h"
#include "stage2/state.h"
#include "stage2/telemetry.h"
#include "support/agreement.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::stage2 {
namespace {

using run::Position;
using run::Run;

constexpr int most_not_finite = 10;

/// The loop of the descent by a method, and what follows its last step.
class SubspaceDescent final : public run::Stage {
 public:
  SubspaceDescent(engine::Setup& setup,
                  Subspace subspace,
                  std::optional<StartWeights> start,
                  const TrainOptions& options)
      : setup_(setup),
        start_(std::move(start)),
        options_(options),
        space_(setup, std::move(subspace), options.penalty, options.trial_batchnorm_moving),
        method_(make_method(options.method, space_.block_sizes())),
        average_(engine::make_average(options.average, own_weights())) {}

  run::CurveRow named_row(const Run& /*run*/) const override {
    return {.stage = "stage2", .method = options_.label};
  }

  std::string epoch_label(const Position& position) const override {
    const auto of = epochs() ? formatted("/{}", *epochs()) : std::string();
    return formatted("stage 2, epoch {}{}", position.epoch + 1, of);
  }

  std::optional<std::int64_t> epochs() const override {
    return options_.budget > 0 ? std::nullopt : std::optional(options_.epochs);
  }

  bool is_done(const Position& position) const override {
    return epochs() ? position.epoch >= *epochs() : is_spent(position);
  }

  bool is_spent(const Position& position) const {
    return epochs_spent(position.totals, setup_.data.steps_per_epoch()) >= options_.budget;
  }

  void open_files(Run& run) override { log_.emplace(run.folder->steps(), steps_prefix_); }

  void start(Run& run) override {
    check(start_.has_value(), "neither a state nor a start");
    run::apply(setup_.model, start_->weights);
    run.position.totals = start_->cost;
    if (options_.recalibrate_batchnorm && start_->weights.needs_recalibration) {
      const ScopedSeconds recalibrating(run.position.totals.seconds);
      engine::recalibrate_batchnorm(setup_);
    }
    run::add_row(run, *this, start_->weights.kind);
    start_.reset();  // a vector of M that no step needs
    if (is_schedule_free()) average_.values.copy_(own_weights());
    write_weights(run, "start.h5");
  }

  engine::BatchResult step(Run& run, const engine::DeviceBatch& batch) override {
    auto& totals = run.position.totals;
    space_.set_batch(batch);
    const auto report = method_->step(space_, progress(run.position));
    const auto passes = space_.take_passes();
    totals.forward_passes += passes.forward;
    totals.backward_passes += passes.backward;
    totals.basis_bytes_read += (2 + report.gradients) * space_.subspace().bytes();
    add_to_average(run.position);
    log_->append(run.position, report);
    counts_.add(report);
    const auto result = space_.result();
    judge(run.position, report, result);
    return result;
  }

  void see_row(const run::CurveRow& row) override {
    for (const auto& [set, loss] :
         {std::pair("test", row.test_loss), std::pair("validation", row.validation_loss)})
      require_environment(!loss || std::isfinite(*loss),
                          "[stage2] the {} loss is not finite at step {}; earlier files are kept; "
                          "a lower learning rate or alpha may help",
                          set,
                          row.step);
    if (row.step == 0) first_ = score_of(row);
    last_ = score_of(row);
  }

  void describe_epoch(Run& run) override {
    run.console->line(counts_.describe());
    if (!searches_warned_ && counts_.trials > 0 && counts_.failed == counts_.steps) {
      searches_warned_ = true;
      run.console->warn("no line search of this epoch found a lower loss; " +
                        advice("a larger --batch_size, more --trials or a smaller --alpha may "
                               "help"));
    }
    counts_ = {};
  }

  /// Rows of the recalibrated and of the averaged weights, then the weights of the last row as a
  /// snapshot.
  void finish(Run& run) override {
    require_finite(run.position.step, 1);
    if (recalibrate(run)) run::add_row(run, *this, "recalibrated");
    if (average_.count > 0) {
      const torch::NoGradGuard no_grad;
      setup_.model.flat.weights.copy_(
          all_gather(*setup_.communicator, average_.values, setup_.model.columns));
      recalibrate(run);
      run::add_row(run, *this, name(options_.average.kind));
    }
    write_weights(run, "final.h5");
    if (setup_.communicator->rank() == 0) warn_of_harm(run);
  }

  void save(const Run& /*run*/, checkpoints::State& state) override {
    steps_prefix_ = log_->prefix();
    state.scalars["steps"] = run::to_json(steps_prefix_);
    state.scalars["not_finite"] = not_finite_;
    if (first_)
      state.scalars["start_scores"] = {{"loss", first_->loss}, {"accuracy", first_->accuracy}};
    stage2::save(state, setup_, descent());
  }

  void restore(Run& /*run*/, const checkpoints::State& state) override {
    steps_prefix_ = run::prefix_from_json(state.scalars.at("steps"));
    if (state.scalars.contains("not_finite"))
      not_finite_ = checkpoints::count_of(state.scalars, "not_finite");
    if (const auto start = state.scalars.find("start_scores"); start != state.scalars.end())
      first_ = {.loss = start->at("loss"), .accuracy = start->at("accuracy")};
    stage2::restore(state, setup_, descent());
  }

 private:
  /// The score on the validation set where there is one, else on the test set.
  static std::optional<engine::Score> score_of(const run::CurveRow& row) {
    const bool held_out = row.validation_loss.has_value();
    const auto& loss = held_out ? row.validation_loss : row.test_loss;
    const auto& accuracy = held_out ? row.validation_accuracy : row.test_accuracy;
    if (!loss || !accuracy) return {};
    return engine::Score{.loss = *loss, .accuracy = *accuracy};
  }

  static std::string percent(double part) {
    return formatted("{} %", std::round(1e4 * part) / 100);
  }

  void write_weights(const Run& run, const char* name) const {
    const auto snapshot = run::start_snapshot(setup_, run.position, run.record);
    on_rank_0(*setup_.communicator,
              [&] { checkpoints::write_snapshot(run.folder->path() / name, snapshot()); });
  }

  /// Returns advice, unless stage 1 has left nothing to gain for stage 2.
  std::string advice(std::string otherwise) const {
    if (options_.stage1_rate != 0.0) return otherwise;
    return "stage 2 cannot gain much, because stage 1 ended at a learning rate of 0; for a higher "
           "last rate, run stage 1 with --total_epochs larger than --epochs";
  }

  /// Says what a person would otherwise find out by comparing rows of the curve.
  void warn_of_harm(const Run& run) const {
    constexpr std::int64_t few_steps = 100;
    constexpr double noise = 0.001;      // of an accuracy
    constexpr double clear_rise = 1.02;  // of a loss
    const auto steps = run.position.step;
    const bool few = space_.subspace().components() > 0 && steps > 0 && steps < few_steps;
    if (few)
      run.console->line(
          formatted("{} {} few for stage 2; the recipes of stage 2 take {} or more; {}",
                    counted(steps, "step"),
                    steps == 1 ? "is" : "are",
                    few_steps,
                    advice("more --epochs or a smaller --batch_size gives more steps")));
    if (!first_ || !last_ || steps == 0) return;
    if (last_->accuracy < first_->accuracy - noise)
      run.console->warn(formatted(
          "stage 2 ended at an accuracy of {}, below the {} at the start; the weights of the start "
          "are in {}{}",
          percent(last_->accuracy),
          percent(first_->accuracy),
          (run.folder->path() / "start.h5").string(),
          few ? ""
              : "; " + advice("a larger --batch_size, fewer --epochs or another --preset may "
                              "help")));
    else if (last_->loss > clear_rise * first_->loss)
      run.console->warn(
          formatted("the loss rose from {} to {} while the accuracy stayed: the network is "
                    "over-confident; --label_smoothing 0.1 or fewer --epochs may help",
                    first_->loss,
                    last_->loss));
  }

  bool is_schedule_free() const {
    return options_.average.kind == method::AverageKind::schedule_free;
  }

  void add_to_average(const Position& position) {
    auto own = own_weights();
    if (!is_schedule_free()) {
      engine::add(average_, options_.average, own, progress(position));
      return;
    }
    engine::move_schedule_free(average_, options_.average, own);
    if (setup_.communicator->size() == 1) return;
    const torch::NoGradGuard no_grad;
    setup_.model.flat.weights.copy_(all_gather(*setup_.communicator, own, setup_.model.columns));
  }

  torch::Tensor own_weights() const {
    return own_columns(setup_.model.flat.weights, setup_.model.columns);
  }

  /// In [0, 1]: of the budget, or of the epochs.
  double progress(const Position& position) const {
    const auto steps = setup_.data.steps_per_epoch();
    const double done =
        epochs() ? 1.0 * (position.epoch * steps + position.step_in_epoch) / (*epochs() * steps)
                 : epochs_spent(position.totals, steps) / options_.budget;
    return std::min(1.0, done);
  }

  SavedDescent descent() {
    return {.method = method_.get(),
            .space = &space_,
            .average = &average_,
            .length = epochs() ? *epochs() : options_.budget,
            .depends_on_length =
                depends_on_length(options_.method) || method::depends_on_length(options_.average)};
  }

  /// A guarded method may pass over a bad batch; weights that are too far off pass over all of
  /// them. So at most `most` steps in a row may meet what is not finite, and not the last one.
  void require_finite(std::int64_t step, int most) const {
    require_environment(
        not_finite_ < most,
        "[stage2] the loss or the gradient of the last {} is not finite (up to step "
        "{}); a lower learning rate or alpha may help",
        counted(not_finite_, "step"),
        step);
  }

  /// Counts a bad step, and lowers the loss scale after an overflow.
  void judge(const Position& position,
             const method::StepReport& report,
             const engine::BatchResult& result) {
    auto& scale = setup_.model.loss_scale;
    const bool finite_loss = std::isfinite(result.loss_sum);
    const bool overflow = report.not_finite && finite_loss;
    if (finite_loss) {
      scale.update(overflow);
    } else {
      space_.restore_statistics();  // whatever made the loss so has passed through BatchNorm, too
    }
    const bool hopeless = report.not_finite && !(overflow && scale.can_fall());
    not_finite_ = hopeless ? not_finite_ + 1 : 0;
    require_finite(position.step + 1, most_not_finite);  // as steps.csv counts
  }

  /// Running statistics estimated again for the present weights, where the network has any.
  bool recalibrate(Run& run) const {
    if (!options_.recalibrate_batchnorm || setup_.model.batchnorm_layers == 0) return false;
    auto& totals = run.position.totals;
    const ScopedSeconds recalibrating(totals.seconds);
    engine::recalibrate_batchnorm(setup_);
    totals.forward_passes += setup_.data.steps_per_epoch();
    return true;
  }

  engine::Setup& setup_;
  std::optional<StartWeights> start_;
  const TrainOptions& options_;
  NetworkSpace space_;
  std::unique_ptr<method::Method> method_;
  engine::Average average_;
  run::FilePrefix steps_prefix_;  // the part of steps.csv that belongs to the state
  std::optional<StepLog> log_;
  StepCounts counts_;                          // of the epoch under way
  bool searches_warned_ = false;               // that all of an epoch failed, once a run
  int not_finite_ = 0;                         // steps in a row up to now
  std::optional<engine::Score> first_, last_;  // of the curve's rows
};

}  // namespace

double epochs_spent(const run::Totals& totals, std::int64_t steps_per_epoch) {
  constexpr double backward_cost = 2;  // forward passes
  return (totals.forward_passes + backward_cost * totals.backward_passes) /
         ((1 + backward_cost) * steps_per_epoch);
}

run::EpochEnd train(engine::Setup& setup,
                    const run::RunFolder& folder,
                    Subspace subspace,
                    std::optional<StartWeights> start,
                    const TrainOptions& options,
                    Console& console) {
  subspace.own_columns =
      distributed::own_columns(setup.model.flat.gradient, setup.model.columns).numel();
  SubspaceDescent stage(setup, std::move(subspace), std::move(start), options);
  Run run{.setup = &setup,
          .folder = &folder,
          .console = &console,
          .record = folder.record(),
          .states = {folder.checkpoints(), options.keep_checkpoints}};
  if (options.budget > 0)
    run.hooks.add(run::stop_when(
        [&stage](const run::RunView& view) { return stage.is_spent(*view.position); }));
  run::add_hooks(run.hooks, options.hooks, setup.communicator->size());
  return run::train(run, stage);
}

}  // namespace dimred::stage2
