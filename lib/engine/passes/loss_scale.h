#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "options/options.h"

namespace dimred::engine {

/// The loss is multiplied by a scale before the backward pass and the summed gradient divided by it
/// after, so that small gradients do not vanish in float16. Names and defaults of a scale that
/// moves are PLSC's (utils/fp16_utils.py, Paddle's decorate).
struct LossScaleOptions {
  std::optional<double> loss_scale;  // > 0, that stays; unset: none, in float16 1024 (MindSpore's)
  bool dynamic = false;              // one that moves, instead
  double init_loss_scaling = 1;      // where it starts, >= 1
  std::int64_t incr_every_n_steps =
      2000;  // >= 1; this number of good steps in a row: times incr_ratio
  std::int64_t decr_every_n_nan_or_inf =
      2;                      // >= 1; this number of overflows in a row: times decr_ratio
  bool drop_overflow = true;  // false: an overflow ends the run
  double incr_ratio = 2;      // > 1
  double decr_ratio = 0.5;    // in (0, 1); the scale never falls below 1
};
inline constexpr double default_float16_scale = 1024;
inline constexpr double largest_loss_scale = 1e20;

/// Throws std::invalid_argument for a value out of range, or both forms at once.
void validate(LossScaleOptions options);

/// The rows of the option table, in the group Loss.
void add_options(OptionTable& table, LossScaleOptions& options);

/// A scale and its counts, from which a resumed run goes on.
struct LossScaleState {
  bool dynamic = false;
  double value = 1;
  std::int64_t good_steps = 0, bad_steps = 0;  // in a row, since the scale last moved
  std::int64_t overflows = 0, overflows_in_a_row = 0;

  bool operator==(const LossScaleState&) const = default;
};

/// The scale of a run, and how often a gradient did not fit. A power of two changes no bit of a
/// gradient that fits.
class LossScale {
 public:
  LossScale() = default;  // none
  explicit LossScale(const LossScaleOptions& options);

  /// False without any: gradients are neither divided nor looked at.
  bool active() const { return active_; }
  double value() const { return state_.value; }
  /// True while overflows make it smaller, so that they may end by themselves.
  bool can_fall() const { return options_.dynamic && state_.value > 1; }

  /// g <- g / value() in place. Returns, on the device, [1] float32, which is 0 when all of it is
  /// finite: one pass. For a gradient summed over ranks all ranks see the same, so the answer needs
  /// no message. Without a scale it does nothing and returns none.
  torch::Tensor unscale(torch::Tensor& gradient) const;

  /// After each step, with the same answer on all ranks: counts, and moves a scale that moves.
  /// Throws std::runtime_error when the last 10 steps overflowed and the scale cannot fall, and at
  /// the first where none is dropped.
  void update(bool overflow);

  std::int64_t overflows() const { return state_.overflows; }
  const LossScaleState& state() const { return state_; }
  /// Counts go on; of a scale that moves its place, too.
  void restore(const LossScaleState& saved);

 private:
  LossScaleOptions options_;
  bool active_ = false;
  LossScaleState state_;
};

/// "          loss scale 512, 3 steps left out by overflow so far".
std::string describe(const LossScale& scale);

}  // namespace dimred::engine
