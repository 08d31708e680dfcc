#pragma once

#include <string>
#include <utility>
#include <vector>

#include "options/options.h"

namespace dimred::schedules {

/// All schedules; adding one: docs/how-to/add_a_schedule.md.
enum class ScheduleKind {
#define DIMRED_SCHEDULE(name) name,
#include "schedules/schedules.inc"
#undef DIMRED_SCHEDULE
};

/// How the rate rises during the warm-up. linear: from start_learning_rate. t2t: Tensor2Tensor's
/// and FastNN's, base * (0.01^(1/w))^(w - i), from a hundredth of the base.
enum class WarmupScheme { linear, t2t };

/// When a decay begins and in how many times it comes, of T steps (FastNN after Luong's NMT):
/// luong5 T/2, 5; luong10 T/2, 10; luong234 2T/3, 4; both rounded down to whole steps.
enum class DecayScheme { none, luong5, luong10, luong234 };

/// Lengths as recipes that count steps state them; each excludes its counterpart in epochs.
struct StepLengths {
  double warmup = 0;        // >= 0; 0: warmup_epochs
  double total = 0;         // >= 0; 0: total_epochs
  bool milestones = false;  // true: milestones are steps, not epochs
};

/// Learning rate as a pure function of the step; times are in epochs, as recipes state them, or in
/// steps. With i = step, w = warmup_epochs * steps_per_epoch, T = total_epochs * steps_per_epoch,
/// p = min(1, (i - w) / (T - w)):
///   warm-up (i < w)  start + (base - start) i / w, or WarmupScheme::t2t
///   constant         base
///   linear           base - (base - end) p
///   cosine           end + (base - end) (1 + cos(pi p)) / 2
///   polynomial       end + (base - end) (1 - p)^power; with a decay scheme that starts at s, base
///                    until s and p = (i - s) / (T - s)
///   step             base * factor^(number of milestones <= i / steps_per_epoch)
///   inverse-sqrt     base * sqrt(w / i), w at least 1
/// and the published ones, in files of their own:
///   exponential, fastnn-polynomial (fastnn.cpp), mindspore-* (mindspore.cpp), plsc (plsc.cpp),
///   piecewise (piecewise.h)
/// and, for the equal-epochs annealed baseline, from epoch a = anneal_from_epoch to b =
/// anneal_to_epoch whatever the kind, with e = i / steps_per_epoch:
///   annealed (e > a) (learning rate of the above at epoch a) * max(0, (b - e) / (b - a))
/// linear and its warm-up are MindSpore's lr_generator (facts: lr_init, lr_max, lr_end).
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::linear;
  double learning_rate = 0.1;      // base, > 0
  double start_learning_rate = 0;  // of the linear warm-up, >= 0
  double end_learning_rate = 0;    // >= 0
  double warmup_epochs = 0;        // >= 0, < total_epochs
  double total_epochs = 0;  // of the schedule; may exceed the epochs trained. 0: see with_total
  double power = 2;         // polynomial, > 0
  double factor = 0.1;      // step, exponential and plsc, (0, 1]
  std::vector<double> milestones;  // step and plsc, epochs >= 0, ascending
  double anneal_from_epoch = -1;   // < 0: none
  double anneal_to_epoch = -1;     // > anneal_from_epoch, < 0: see with_total; < 0 without one
  StepLengths steps;
  WarmupScheme warmup_scheme = WarmupScheme::linear;
  DecayScheme decay_scheme = DecayScheme::none;  // exponential, polynomial, fastnn-polynomial
  std::string pieces;                            // piecewise: "5:0.1->0.4,10:0.4=>0.8,20:0.08"
  double global_batch_size = 0;                  // plsc: samples a step over all ranks, > 0
};

/// The kinds by name, in the order of schedules.inc (for an option table).
const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds();

/// True when the rate depends on the schedule's length.
bool depends_on_length(ScheduleKind kind);

/// The options with `epochs`, those trained, where they leave a length open (total_epochs = 0
/// without steps.total; anneal_to_epoch < 0 with an anneal_from_epoch), validated. Throws as
/// validate() does.
ScheduleOptions with_total(ScheduleOptions options, double epochs);

/// Throws std::invalid_argument("[schedules] rule, received ..."): a value out of its range or not
/// finite, milestones not strictly ascending, no length yet, an option that the kind does not know.
void validate(const ScheduleOptions& options);

/// The learning rate of a step >= 0 (a whole number in training; any in between is defined), with
/// steps_per_epoch >= 1 of them an epoch. Throws std::invalid_argument outside, for a warm-up as
/// long as the schedule and as validate() does.
double learning_rate(const ScheduleOptions& options, double step, double steps_per_epoch);

/// The rows of the group "Schedule". global_batch_size is the run's and has none.
void add_options(OptionTable& table, ScheduleOptions& options);

}  // namespace dimred::schedules
