#include "commands/effects.h"

#include <algorithm>

#include "method/effects.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

/// Options that work only where something holds.
struct Dependence {
  std::vector<std::string_view> options;
  bool holds;
  std::string_view needed;
};

void refuse_idle(const OptionTable& table,
                 const char* scope,
                 const std::vector<Dependence>& dependences) {
  for (const auto& [options, holds, needed] : dependences) {
    for (const auto& row : table.rows()) {
      const bool idle = !holds && row.origin == OptionOrigin::flag &&
                        std::ranges::find(options, row.name) != options.end() &&
                        row.show() != row.default_value;
      require(!idle, "[{}] {} has no effect: it needs {}", scope, row.name, needed);
    }
  }
}

template <class Kind>
bool is_among(Kind kind, std::initializer_list<Kind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

}  // namespace

void require_effects(const OptionTable& table, const optimizers::OptimizerOptions& options) {
  using optimizers::OptimizerKind;
  using enum OptimizerKind;
  const auto kind = options.kind;
  refuse_idle(
      table,
      "optimizers",
      {{{"momentum"},
        is_among(kind, {momentum, nesterov, lars}),
        "optimizer = momentum, nesterov or lars"},
       {{"adam_beta1", "adam_beta2"},
        is_among(kind, {adam, adamweightdecay}),
        "optimizer = adam or adamweightdecay"},
       {{"opt_epsilon"},
        is_among(kind, {adam, adamweightdecay, adadelta, rmsprop}),
        "optimizer = adam, adamweightdecay, adadelta or rmsprop"},
       {{"adagrad_initial_accumulator_value"}, kind == adagrad, "optimizer = adagrad"},
       {{"adadelta_rho"}, kind == adadelta, "optimizer = adadelta"},
       {{"rmsprop_momentum", "rmsprop_decay"}, kind == rmsprop, "optimizer = rmsprop"},
       {{"ftrl_learning_rate_power", "ftrl_initial_accumulator_value", "ftrl_l1", "ftrl_l2"},
        kind == ftrl,
        "optimizer = ftrl"},
       {{"lars_coefficient", "lars_epsilon"}, kind == lars, "optimizer = lars"}});
}

void require_effects(const OptionTable& table, const stage1::Options& options) {
  using enum schedules::ScheduleKind;
  require_effects(table, options.optimizer);
  const auto schedule = options.schedule.kind;
  const bool warm = options.schedule.warmup_epochs > 0 || options.schedule.steps.warmup > 0;
  refuse_idle(
      table,
      "stage1",
      {{{"learning_rate"},
        schedule != piecewise || warm,
        "another schedule than piecewise, whose pieces have the rates"},
       {{"end_learning_rate"},
        is_among(schedule, {linear, cosine, polynomial, fastnn_polynomial}),
        "schedule = linear, cosine, polynomial or fastnn-polynomial"},
       {{"power"}, schedule == polynomial, "schedule = polynomial"},
       {{"factor"},
        is_among(schedule, {step, exponential, plsc}),
        "schedule = step, exponential or plsc"},
       {{"milestone_unit"}, !options.schedule.milestones.empty(), "milestones"},
       {{"start_learning_rate", "warmup_scheme"}, warm, "warmup_epochs or warmup_steps"},
       {{"early_stopping_min_delta"},
        options.control.early_stopping_patience > 0,
        "early_stopping_patience"},
       {{"snapshot_from_epoch"}, options.saves.snapshots_per_epoch > 0, "snapshots_per_epoch"},
       {{"ema_warmup"}, options.ema.decay > 0, "ema_decay"},
       {{"profile_at_task"}, options.hooks.profile_every_n_iters > 0, "profile_every_n_iters"},
       {{"smoothing_form"}, table.was_set("label_smoothing"), "label_smoothing"}});
  require(
      options.saves.snapshots_per_epoch == 0 || options.saves.snapshot_from_epoch <= options.epochs,
      "[stage1] snapshot_from_epoch needs at most the {} epochs, received {}",
      options.epochs,
      options.saves.snapshot_from_epoch);
}

void require_effects(const OptionTable& table, const training::CommonOptions& options) {
  refuse_idle(table,
              "training",
              {{{"init_loss_scaling",
                 "incr_every_n_steps",
                 "decr_every_n_nan_or_inf",
                 "incr_ratio",
                 "decr_ratio"},
                options.loss_scale.dynamic,
                "use_dynamic_loss_scaling"}});
}

void require_effects(const OptionTable& table, const stage2::Resolved& resolved) {
  const auto& train = resolved.train;
  std::vector<Dependence> dependences{
      {{"start_latest"},
       is_among(resolved.start, {method::Start::mean, method::Start::soup}),
       "start = mean or soup"},
      {{"start_file"}, resolved.start == method::Start::file, "start = file"}};
  for (const auto& row : table.rows()) {
    const auto needed =
        method::needed_for_effect(row.name, train.method, train.penalty, train.average);
    if (!needed.empty()) dependences.push_back({{row.name}, false, needed});
  }
  refuse_idle(table, "stage2", dependences);
}

}  // namespace dimred::commands
