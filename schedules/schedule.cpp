#include "schedules/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "support/errors.h"

namespace dimred::schedules {
namespace {

constexpr auto place = "schedules";

template <class... Rule>
void needs(bool holds, double received, const Rule&... rule) {
  require(holds && std::isfinite(received), place, "needs ", rule..., ", received ", received);
}

void validate_milestones(const std::vector<double>& milestones) {
  double last = -1;
  for (const auto milestone : milestones) {
    needs(milestone >= 0, milestone, "milestones >= 0");
    needs(milestone > last, milestone, "ascending milestones: one above ", last);
    last = milestone;
  }
}

double after_warmup(const ScheduleOptions& options, double step, double steps_per_epoch) {
  const double base = options.learning_rate, end = options.end_learning_rate;
  const double warmup = options.warmup_epochs * steps_per_epoch;
  const double total = options.total_epochs * steps_per_epoch;
  const double progress = std::min(1.0, (step - warmup) / (total - warmup));
  switch (options.kind) {
    case ScheduleKind::constant:
      return base;
    case ScheduleKind::linear:
      return base - (base - end) * progress;
    case ScheduleKind::cosine:
      return end + (base - end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::polynomial:
      return end + (base - end) * std::pow(1 - progress, options.power);
    case ScheduleKind::step: {
      const auto passed = std::upper_bound(
          options.milestones.begin(), options.milestones.end(), step / steps_per_epoch);
      return base * std::pow(options.factor, passed - options.milestones.begin());
    }
  }
  check(false, "unknown ScheduleKind");
  return 0;
}

double unannealed(const ScheduleOptions& options, double step, double steps_per_epoch) {
  const double warmup = options.warmup_epochs * steps_per_epoch;
  if (step >= warmup) return after_warmup(options, step, steps_per_epoch);
  const double start = options.start_learning_rate;
  return start + (options.learning_rate - start) * step / warmup;
}

}  // namespace

const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds() {
  static const std::vector<std::pair<std::string, ScheduleKind>> kinds = {
      {"constant", ScheduleKind::constant},
      {"linear", ScheduleKind::linear},
      {"cosine", ScheduleKind::cosine},
      {"polynomial", ScheduleKind::polynomial},
      {"step", ScheduleKind::step}};
  return kinds;
}

bool has_length(ScheduleKind kind) {
  return kind != ScheduleKind::constant && kind != ScheduleKind::step;
}

ScheduleKind schedule_kind(std::string_view name) {
  std::string names;
  for (const auto& [known, kind] : schedule_kinds()) {
    if (known == name) return kind;
    names += (names.empty() ? "" : ", ") + known;
  }
  throw std::invalid_argument(concat("[schedules] needs one of ", names, ", received ", name));
}

ScheduleOptions with_total(ScheduleOptions options, double epochs) {
  if (options.total_epochs == 0) options.total_epochs = epochs;
  if (options.anneal_from_epoch >= 0 && options.anneal_to_epoch < 0)
    options.anneal_to_epoch = epochs;
  validate(options);
  return options;
}

void validate(const ScheduleOptions& options) {
  needs(options.learning_rate > 0, options.learning_rate, "learning_rate > 0");
  needs(options.start_learning_rate >= 0, options.start_learning_rate, "start_learning_rate >= 0");
  needs(options.end_learning_rate >= 0, options.end_learning_rate, "end_learning_rate >= 0");
  needs(options.total_epochs > 0, options.total_epochs, "total_epochs > 0");
  needs(options.warmup_epochs >= 0 && options.warmup_epochs < options.total_epochs,
        options.warmup_epochs,
        "0 <= warmup_epochs < total_epochs (",
        options.total_epochs,
        ")");
  needs(options.power > 0, options.power, "power > 0");
  needs(options.factor > 0 && options.factor <= 1, options.factor, "a factor in (0, 1]");
  validate_milestones(options.milestones);
  needs((options.kind == ScheduleKind::step) == !options.milestones.empty(),
        static_cast<double>(options.milestones.size()),
        "milestones with the step schedule, and with no other");
  const double from = options.anneal_from_epoch, to = options.anneal_to_epoch;
  needs(true, from, "a finite anneal_from_epoch");
  if (from >= 0) {
    needs(to > from, to, "anneal_to_epoch > anneal_from_epoch (", from, ")");
  } else {
    needs(to < 0, to, "no anneal_to_epoch without an anneal_from_epoch >= 0");
  }
}

double learning_rate(const ScheduleOptions& options, double step, double steps_per_epoch) {
  validate(options);
  needs(step >= 0, step, "step >= 0");
  needs(steps_per_epoch >= 1, steps_per_epoch, "steps_per_epoch >= 1");
  const double from = options.anneal_from_epoch, to = options.anneal_to_epoch;
  const double epoch = step / steps_per_epoch;
  if (from < 0 || epoch <= from) return unannealed(options, step, steps_per_epoch);
  const double remaining = std::max(0.0, (to - epoch) / (to - from));
  return unannealed(options, from * steps_per_epoch, steps_per_epoch) * remaining;
}

}  // namespace dimred::schedules
