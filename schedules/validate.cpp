#include <algorithm>

#include "schedules/families.h"
#include "schedules/piecewise.h"
#include "support/printable.h"

namespace dimred::schedules {
namespace {

bool is_one_of(ScheduleKind kind, std::initializer_list<ScheduleKind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

void validate_milestones(const std::vector<double>& milestones) {
  double last = -1;
  for (const auto milestone : milestones) {
    needs(milestone >= 0, milestone, "milestones >= 0");
    needs(milestone > last, milestone, "ascending milestones, the next one > {}", last);
    last = milestone;
  }
}

void validate_lengths(const ScheduleOptions& options) {
  const auto& steps = options.steps;
  needs(steps.warmup >= 0, steps.warmup, "warmup_steps >= 0");
  needs(steps.total >= 0, steps.total, "total_steps >= 0");
  needs(steps.warmup == 0 || options.warmup_epochs == 0,
        steps.warmup,
        "warmup_steps = 0 if warmup_epochs > 0");
  needs(steps.total == 0 || options.total_epochs == 0,
        steps.total,
        "total_steps = 0 if total_epochs > 0");
  if (steps.total == 0) needs(options.total_epochs > 0, options.total_epochs, "total_epochs > 0");
  const bool fits = options.warmup_epochs < options.total_epochs || steps.total > 0;
  needs(options.warmup_epochs >= 0 && fits,
        options.warmup_epochs,
        "0 <= warmup_epochs < total_epochs ({})",
        options.total_epochs);
}

void validate_anneal(const ScheduleOptions& options) {
  const double from = options.anneal_from_epoch, to = options.anneal_to_epoch;
  needs(true, from, "a finite anneal_from_epoch");
  if (from >= 0) {
    needs(to > from, to, "anneal_to_epoch > anneal_from_epoch ({})", from);
  } else {
    needs(to < 0, from, "anneal_from_epoch >= 0 if anneal_to_epoch is set");
  }
}

/// Checks the options that belong to some kinds only.
void validate_kind(const ScheduleOptions& options) {
  using enum ScheduleKind;
  const auto kind = options.kind;
  needs(is_one_of(kind, {step, plsc}) == !options.milestones.empty(),
        options.milestones.size(),
        "milestones for the schedules step and plsc, and no milestones for any other schedule");
  require(
      (kind == piecewise) == !options.pieces.empty(),
      "[schedules] needs pieces for the piecewise schedule, and no pieces for any other schedule, "
      "received {}",
      options.pieces.empty() ? "none" : printable(options.pieces));
  if (kind == piecewise) parse_pieces(options.pieces);
  const bool decays = options.decay_scheme != DecayScheme::none;
  require(decays || !is_one_of(kind, {exponential, fastnn_polynomial}),
          "[schedules] the schedules exponential and fastnn-polynomial need decay_scheme luong5, "
          "luong10 or luong234, received none; use the constant schedule for a constant rate");
  require(!decays || is_one_of(kind, {exponential, fastnn_polynomial, polynomial}),
          "[schedules] decay_scheme needs the schedule exponential, polynomial or "
          "fastnn-polynomial, received another schedule");
  if (kind == plsc)
    needs(options.global_batch_size > 0, options.global_batch_size, "global_batch_size > 0");
}

void validate_warmup(const ScheduleOptions& options) {
  using enum ScheduleKind;
  const double warmup = std::max(options.warmup_epochs, options.steps.warmup);
  if (is_one_of(options.kind, {piecewise, mindspore_step}))
    needs(warmup == 0, warmup, "no warm-up with the schedules piecewise and mindspore-step");
  const bool t2t = options.warmup_scheme == WarmupScheme::t2t;
  const double start = options.start_learning_rate;
  if (t2t) {
    require(!is_one_of(options.kind, {mindspore_cosine, plsc}),
            "[schedules] warmup_scheme t2t does not work with the schedules mindspore-cosine and "
            "plsc, which have their own warm-up");
    needs(
        start == 0, start, "no start_learning_rate with t2t, which starts at learning_rate / 100");
  }
  if (options.kind == plsc)
    needs(start == 0, start, "no start_learning_rate with plsc, which starts at learning_rate");
}

}  // namespace

void validate(const ScheduleOptions& options) {
  needs(options.learning_rate > 0, options.learning_rate, "learning_rate > 0");
  needs(options.start_learning_rate >= 0, options.start_learning_rate, "start_learning_rate >= 0");
  needs(options.end_learning_rate >= 0, options.end_learning_rate, "end_learning_rate >= 0");
  validate_lengths(options);
  needs(options.power > 0, options.power, "power > 0");
  needs(options.factor > 0 && options.factor <= 1, options.factor, "a factor in (0, 1]");
  validate_milestones(options.milestones);
  validate_kind(options);
  validate_warmup(options);
  validate_anneal(options);
}

}  // namespace dimred::schedules
