#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dimred::schedules {

enum class ScheduleKind { constant, linear, cosine, polynomial, step };

/// Learning rate as a pure function of the step; times are in epochs, as recipes state them. With
/// i = step, w = warmup_epochs * steps_per_epoch, T = total_epochs * steps_per_epoch,
/// p = min(1, (i - w) / (T - w)):
///   warm-up (i < w)  start + (base - start) i / w
///   constant         base
///   linear           base - (base - end) p
///   cosine           end + (base - end) (1 + cos(pi p)) / 2
///   polynomial       end + (base - end) (1 - p)^power
///   step             base * factor^(number of milestones <= i / steps_per_epoch)
/// and, for the equal-epochs annealed baseline, from epoch a = anneal_from_epoch to b =
/// anneal_to_epoch whatever the kind, with e = i / steps_per_epoch:
///   annealed (e > a) (learning rate of the above at epoch a) * max(0, (b - e) / (b - a))
/// linear and its warm-up are MindSpore's lr_generator (facts: lr_init, lr_max, lr_end).
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::linear;
  double learning_rate = 0.1;      // base, > 0
  double start_learning_rate = 0;  // of the warm-up, >= 0
  double end_learning_rate = 0;    // >= 0
  double warmup_epochs = 0;        // >= 0, < total_epochs
  double total_epochs = 0;  // of the schedule; may exceed the epochs trained. 0: see with_total
  double power = 2;         // polynomial, > 0
  double factor = 0.1;      // step, (0, 1]
  std::vector<double> milestones;  // step, epochs >= 0, ascending
  double anneal_from_epoch = -1;   // < 0: none
  double anneal_to_epoch = -1;     // > anneal_from_epoch, < 0: see with_total; < 0 without one
};

/// The kinds by name, in the order of the formulas above (for an option table).
const std::vector<std::pair<std::string, ScheduleKind>>& schedule_kinds();

/// True when the rate depends on total_epochs: linear, cosine and polynomial.
bool has_length(ScheduleKind kind);

/// The kind of that name. Throws std::invalid_argument, naming all, for an unknown one.
ScheduleKind schedule_kind(std::string_view name);

/// The options with `epochs`, those trained, where they leave a length open (total_epochs = 0;
/// anneal_to_epoch < 0 with an anneal_from_epoch), validated. Throws as validate() does.
ScheduleOptions with_total(ScheduleOptions options, double epochs);

/// Throws std::invalid_argument("[schedules] rule, received ..."): a value out of its range or not
/// finite, milestones not strictly ascending, or total_epochs still 0.
void validate(const ScheduleOptions& options);

/// The learning rate of a step >= 0 (a whole number in training; any in between is defined), with
/// steps_per_epoch >= 1 of them an epoch. Throws std::invalid_argument outside and as validate()
/// does.
double learning_rate(const ScheduleOptions& options, double step, double steps_per_epoch);

}  // namespace dimred::schedules
