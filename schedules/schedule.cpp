#include "schedules/schedule.h"

#include <algorithm>

#include "schedules/families.h"

namespace dimred::schedules::families {
#define DIMRED_SCHEDULE(name) Family name();
#include "schedules/schedules.inc"
#undef DIMRED_SCHEDULE
}  // namespace dimred::schedules::families

namespace dimred::schedules {
namespace {

/// The families stand in the order of ScheduleKind.
const Family& family_of(ScheduleKind kind) {
  static const std::vector<Family> all = {
#define DIMRED_SCHEDULE(name) families::name(),
#include "schedules/schedules.inc"
#undef DIMRED_SCHEDULE
  };
  return all.at(static_cast<std::size_t>(kind));
}

double unannealed(const ScheduleOptions& options, const Times& times) {
  const auto& family = family_of(options.kind);
  const bool warming = times.step < times.warmup && !family.own_warmup;
  return warming ? warmed_up(options, times) : family.rate(options, times);
}

Times times_of(const ScheduleOptions& options, double step, double steps_per_epoch) {
  const auto& steps = options.steps;
  const Times times{
      .step = step,
      .warmup = steps.warmup > 0 ? steps.warmup : options.warmup_epochs * steps_per_epoch,
      .total = steps.total > 0 ? steps.total : options.total_epochs * steps_per_epoch,
      .steps_per_epoch = steps_per_epoch};
  needs(times.warmup < times.total || times.warmup == 0,
        times.warmup,
        "a warm-up shorter than the schedule of {} steps",
        times.total);
  return times;
}

}  // namespace

const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds() {
  static const auto kinds = [] {
    std::vector<std::pair<std::string, ScheduleKind>> all = {
#define DIMRED_SCHEDULE(name) {#name, ScheduleKind::name},
#include "schedules/schedules.inc"
#undef DIMRED_SCHEDULE
    };
    for (auto& [name, kind] : all) std::ranges::replace(name, '_', '-');
    return all;
  }();
  return kinds;
}

bool depends_on_length(ScheduleKind kind) { return family_of(kind).depends_on_length; }

ScheduleOptions with_total(ScheduleOptions options, double epochs) {
  if (options.total_epochs == 0 && options.steps.total == 0) options.total_epochs = epochs;
  if (options.anneal_from_epoch >= 0 && options.anneal_to_epoch < 0)
    options.anneal_to_epoch = epochs;
  validate(options);
  return options;
}

double learning_rate(const ScheduleOptions& options, double step, double steps_per_epoch) {
  validate(options);
  needs(step >= 0, step, "step >= 0");
  needs(steps_per_epoch >= 1, steps_per_epoch, "steps_per_epoch >= 1");
  const double from = options.anneal_from_epoch, to = options.anneal_to_epoch;
  const double epoch = step / steps_per_epoch;
  const auto times = times_of(options, step, steps_per_epoch);
  if (from < 0 || epoch <= from) return unannealed(options, times);
  const double remaining = std::max(0.0, (to - epoch) / (to - from));
  auto then = times;
  then.step = from * steps_per_epoch;
  return unannealed(options, then) * remaining;
}

namespace {

void add_rates(OptionTable& table, ScheduleOptions& options) {
  table.add_choice(
      "schedule", &options.kind, "shape of the learning rate after the warm-up", schedule_kinds());
  table
      .add("learning_rate",
           &options.learning_rate,
           "rate after the warm-up (default: 0.1, but 0.001 for adam and adamweightdecay, 0.01 for "
           "adagrad and rmsprop, 1 for adadelta; 0.1 x batch / 64 for SGD with a batch below 64)",
           positive())
      .needs(!is("schedule", {"piecewise"}) || above("warmup_epochs") || above("warmup_steps"))
      .essential();
  table.add("warmup_epochs",
            &options.warmup_epochs,
            "epochs of linear warm-up from start_learning_rate",
            at_least(0));
  table
      .add("start_learning_rate",
           &options.start_learning_rate,
           "rate at which the warm-up starts",
           at_least(0))
      .needs(above("warmup_epochs") || above("warmup_steps"));
  table
      .add("end_learning_rate",
           &options.end_learning_rate,
           "rate at the end of the schedule",
           at_least(0))
      .needs(is("schedule", {"linear", "cosine", "polynomial", "fastnn-polynomial"}));
  table
      .add("total_epochs",
           &options.total_epochs,
           "length of the schedule in epochs; may exceed --epochs; 0: same as --epochs",
           at_least(0))
      .way_on(
          "; the schedule of this run ends there; give --total_epochs {} to train more --epochs at "
          "the last rate, or another --output to start again");
  table.add("power", &options.power, "power of the polynomial schedule", positive())
      .needs(is("schedule", {"polynomial"}));
  table
      .add("factor",
           &options.factor,
           "number that multiplies the rate at each milestone, or at each decay of schedule = "
           "exponential",
           positive(1))
      .needs(is("schedule", {"step", "exponential", "plsc"}));
  table
      .add("milestones",
           &options.milestones,
           "ascending epochs or steps (--milestone_unit) at which the rate falls",
           at_least(0))
      .needs(is("schedule", {"step", "plsc"}));
}

void add_published(OptionTable& table, ScheduleOptions& options) {
  table
      .add_choice("milestone_unit",
                  &options.steps.milestones,
                  "unit of the milestones",
                  {{"epochs", false}, {"steps", true}})
      .needs(has_value("milestones"));
  table.add("warmup_steps",
            &options.steps.warmup,
            "length of the warm-up in steps; 0: use warmup_epochs",
            at_least(0));
  table.add("total_steps",
            &options.steps.total,
            "length of the schedule in steps; 0: use total_epochs",
            at_least(0));
  table
      .add_choice("warmup_scheme",
                  &options.warmup_scheme,
                  "shape of the warm-up: linear, or exponential from learning_rate / 100 (t2t)",
                  {{"linear", WarmupScheme::linear}, {"t2t", WarmupScheme::t2t}})
      .needs(above("warmup_epochs") || above("warmup_steps"));
  table
      .add_choice("decay_scheme",
                  &options.decay_scheme,
                  "number of decays: 5 (luong5) or 10 (luong10) in the second half of the "
                  "schedule, 4 (luong234) in the last third",
                  {{"none", DecayScheme::none},
                   {"luong5", DecayScheme::luong5},
                   {"luong10", DecayScheme::luong10},
                   {"luong234", DecayScheme::luong234}})
      .needs(is("schedule", {"exponential", "polynomial", "fastnn-polynomial"}));
  table
      .add("pieces",
           &options.pieces,
           "comma-separated pieces: END_EPOCH:FIRST->LAST (linear) or END_EPOCH:FIRST=>LAST "
           "(exponential), as in 5:0.1->0.4,10:0.4=>0.8")
      .needs(is("schedule", {"piecewise"}));
}

}  // namespace

void add_options(OptionTable& table, ScheduleOptions& options) {
  table.group("Schedule");
  add_rates(table, options);
  table.add("anneal_from_epoch",
            &options.anneal_from_epoch,
            "epoch from which the rate falls linearly to 0; -1: off",
            at_least(-1));
  table.add("anneal_to_epoch",
            &options.anneal_to_epoch,
            "epoch at which the annealed rate reaches 0; -1: the last epoch",
            at_least(-1));
  add_published(table, options);
}

}  // namespace dimred::schedules
