#include "stage1/train.h"

#include <cmath>
#include <map>

#include "engine/weights/full_vector.h"
#include "run/train.h"
#include "stage1/chance_warning.h"
#include "stage1/early_stopping.h"
#include "stage1/ema.h"
#include "stage1/saving_hooks.h"
#include "stage1/step.h"
#include "stage1/step_log.h"
#include "support/errors.h"

namespace dimred::stage1 {
namespace {

using run::Run;

/// Curves call all forms of SGD so; their states share one vector, and its meaning.
std::string method_of(const std::string& optimizer) {
  const bool is_sgd = optimizer == "momentum" || optimizer == "sgd" || optimizer == "nesterov";
  return is_sgd ? "sgd" : optimizer;
}

/// The loop of conventional training: gradient, all-reduce, optimiser.
class Conventional final : public run::Stage {
 public:
  Conventional(engine::Setup& setup, const Options& options)
      : options_(options),
        optimizer_(optimizers::name_of(options.optimizer.kind)),
        descent_(setup, options.optimizer, options.buckets),
        vectors_(descent_.optimizer->vectors()) {}

  double learning_rate(const Run& run) const {
    return schedules::learning_rate(
        options_.schedule, run.position.step, run.setup->data.steps_per_epoch());
  }

  run::CurveRow named_row(const Run& run) const override {
    return {
        .stage = "stage1", .method = method_of(optimizer_), .learning_rate = learning_rate(run)};
  }

  std::string epoch_label(const run::Position& position) const override {
    return formatted("epoch {}/{}", position.epoch + 1, options_.epochs);
  }

  std::optional<std::int64_t> epochs() const override { return options_.epochs; }

  bool is_done(const run::Position& position) const override {
    return position.epoch >= options_.epochs;
  }

  void prepare(Run& run, const std::filesystem::path& resumed_from) override {
    run::begin(*run.setup, options_.transfer, run.folder->path(), resumed_from, *run.console);
  }

  engine::BatchResult step(Run& run, const engine::DeviceBatch& batch) override {
    auto& position = run.position;
    const auto result = descend(descent_, batch, learning_rate(run), position.step + 1);
    require_finite(run, result);
    ++position.totals.forward_passes;
    ++position.totals.backward_passes;
    last_loss_ = result.mean_loss();
    return result;
  }

  void describe_epoch(Run& run) override {
    const auto& buckets = descent_.buckets;
    // What a device does goes on behind the waits, which then measure nothing.
    if (run.setup->communicator->size() > 1 && run.setup->model.device.is_cpu())
      run.console->line(engine::describe(buckets.overlap(), buckets.count()));
  }

  void save(const Run& run, checkpoints::State& state) override {
    state.scalars["optimizer"] = optimizer_;
    for (const auto& [name, vector] : vectors_)
      state.vectors[name] = engine::full_vector(*run.setup, vector);
  }

  void restore(Run& run, const checkpoints::State& state) override {
    const auto saved = state.scalars.at("optimizer").get<std::string>();
    require(method_of(saved) == method_of(optimizer_),
            "[stage1] the state comes from optimizer = {}, received optimizer = {}; give the "
            "optimizer of the state, or choose another --output",
            saved,
            optimizer_);
    for (auto& [name, vector] : vectors_)
      models::from_file(run.setup->model.flat.layout, state.vectors.at(name), vector);
  }

 private:
  /// Ends the run; the weights are still those before the step, the loss is the same on all ranks.
  void require_finite(const Run& run, const engine::BatchResult& result) const {
    const auto& position = run.position;
    const auto before =
        last_loss_ == 0 ? std::string() : formatted(", the loss before {}", last_loss_);
    require_environment(
        std::isfinite(result.loss_sum),
        "[training] the loss is not finite at epoch {}, step {} (learning rate {}{}); earlier "
        "files are kept; a lower learning_rate, a longer warm-up or max_gradient_norm may help",
        position.epoch + 1,
        position.step + 1,
        learning_rate(run),
        before);
  }

  const Options& options_;
  std::string optimizer_;
  Descent descent_;
  std::map<std::string, torch::Tensor> vectors_;  // the optimiser's own, [memory_size] each
  double last_loss_ = 0;                          // of the step before; 0: none yet
};

/// In this order after each step.
void add_hooks(Run& run, const Options& options, const Conventional& stage) {
  const auto& control = options.control;
  run.hooks.add(make_snapshots(options.saves, *run.folder));
  run.hooks.add(make_step_log(control, [&run, &stage] { return stage.learning_rate(run); }));
  run.hooks.add(make_chance_warning(options.schedule.learning_rate));
  run.hooks.add(make_ema(options.ema));
  run.hooks.add(make_early_stopping(control, *run.folder));
  if (const auto last = control.stop_at_step; last > 0)
    run.hooks.add(
        run::stop_when([last](const run::RunView& view) { return view.position->step >= last; }));
  run::add_hooks(run.hooks, options.hooks, run.setup->communicator->size());
}

}  // namespace

void validate(const Options& options) {
  schedules::validate(options.schedule);
  optimizers::validate(options.optimizer);
  require(options.resume_from.empty() || options.transfer.initialize_from.empty(),
          "[stage1] needs resume_from to continue a run, or initialize_from to start a new one, "
          "received both");
}

run::EpochEnd train(engine::Setup& setup,
                    const run::RunFolder& folder,
                    const Options& options,
                    Console& console) {
  validate(options);
  require(options.saves.snapshots_per_epoch <= setup.data.steps_per_epoch(),
          "[stage1] snapshots_per_epoch must not exceed the {} steps of an epoch, received {}",
          setup.data.steps_per_epoch(),
          options.saves.snapshots_per_epoch);
  Conventional stage(setup, options);
  Run run{.setup = &setup,
          .folder = &folder,
          .console = &console,
          .record = folder.record(),
          .states = {folder.checkpoints(), options.saves.keep_checkpoints},
          .checkpoint_every = options.saves.checkpoint_every,
          .resume_from = options.resume_from};
  add_hooks(run, options, stage);
  return run::train(run, stage);
}

}  // namespace dimred::stage1
