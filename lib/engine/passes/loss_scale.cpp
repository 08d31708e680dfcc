#include "engine/passes/loss_scale.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>

#include <algorithm>

#include "options/options.h"
#include "support/errors.h"

namespace dimred::engine {
namespace {

constexpr std::int64_t most_in_a_row = 10;  // overflows that nothing can end

}  // namespace

void validate(LossScaleOptions options) {
  OptionTable table("loss scale", "");
  add_options(table, options);
  require_ranges(table, "loss_scale");
  require(!options.dynamic || !options.loss_scale,
          "[loss_scale] give either loss_scale (a fixed scale) or use_dynamic_loss_scaling, "
          "received both, with loss_scale = {}",
          options.loss_scale.value_or(1));
  require(options.drop_overflow || !options.dynamic,
          "[loss_scale] use_dynamic_loss_scaling needs drop_overflow = true, received "
          "false; overflows set the scale");
}

void add_options(OptionTable& table, LossScaleOptions& options) {
  table.group("Loss", {.persists = true});
  table.add("loss_scale",
            &options.loss_scale,
            "number that multiplies the loss in the backward pass and divides the gradients "
            "afterwards (default: 1024 in float16, else none)",
            positive(largest_loss_scale));
  table.add(
      "use_dynamic_loss_scaling",
      &options.dynamic,
      "raise the loss scale after steps without overflow, and lower the scale after overflows");
  table
      .add("init_loss_scaling",
           &options.init_loss_scaling,
           "loss scale of the first step with use_dynamic_loss_scaling",
           between(1, largest_loss_scale))
      .needs(is_on("use_dynamic_loss_scaling"));
  table
      .add("incr_every_n_steps",
           &options.incr_every_n_steps,
           "number of steps in a row without overflow before incr_ratio raises the scale",
           at_least(1))
      .needs(is_on("use_dynamic_loss_scaling"));
  table
      .add("decr_every_n_nan_or_inf",
           &options.decr_every_n_nan_or_inf,
           "number of overflows in a row before decr_ratio lowers the scale; the scale stays >= 1",
           at_least(1))
      .needs(is_on("use_dynamic_loss_scaling"));
  table.add("drop_overflow",
            &options.drop_overflow,
            "skip a step whose gradient overflows; false: end the run");
  table
      .add("incr_ratio",
           &options.incr_ratio,
           "factor of the loss scale after N steps without overflow (N: incr_every_n_steps)",
           {.low = 1, .low_open = true})
      .needs(is_on("use_dynamic_loss_scaling"));
  table
      .add("decr_ratio",
           &options.decr_ratio,
           "factor of the loss scale after N overflows in a row (N: decr_every_n_nan_or_inf)",
           between_open(0, 1))
      .needs(is_on("use_dynamic_loss_scaling"));
}

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), active_(options.dynamic || options.loss_scale.has_value()) {
  validate(options);
  state_.dynamic = options.dynamic;
  state_.value = options.dynamic ? options.init_loss_scaling : options.loss_scale.value_or(1);
}

torch::Tensor LossScale::unscale(torch::Tensor& gradient) const {
  if (!active_) return {};
  const torch::NoGradGuard no_grad;
  const auto single = gradient.options().dtype(torch::kFloat32);
  auto overflow = torch::zeros({1}, single);
  std::vector<torch::Tensor> list{gradient};
  at::_amp_foreach_non_finite_check_and_unscale_(
      list, overflow, torch::full({1}, 1 / state_.value, single));
  return overflow;
}

void LossScale::update(bool overflow) {
  if (!active_) return;
  state_.overflows_in_a_row = overflow ? state_.overflows_in_a_row + 1 : 0;
  state_.overflows += overflow ? 1 : 0;
  require_environment(!overflow || options_.drop_overflow,
                      "[loss_scale] the gradient is not finite at loss scale {}, and drop_overflow "
                      "= false ends the run; earlier files are kept",
                      state_.value);
  require_environment(
      state_.overflows_in_a_row < most_in_a_row || can_fall(),
      "[loss_scale] the gradient of the last {} steps is not finite, at loss scale {}{}; "
      "earlier files are kept; {}a lower learning_rate or precision = bfloat16 may help",
      state_.overflows_in_a_row,
      state_.value,
      options_.dynamic ? ", the smallest possible" : ", which is fixed",
      options_.dynamic ? "" : "a smaller loss_scale, use_dynamic_loss_scaling, ");
  if (!options_.dynamic) return;
  state_.good_steps = overflow ? 0 : state_.good_steps + 1;
  state_.bad_steps = overflow ? state_.bad_steps + 1 : 0;
  if (state_.good_steps == options_.incr_every_n_steps) {
    const double grown = state_.value * options_.incr_ratio;
    if (grown <= largest_loss_scale) state_.value = grown;
    state_.good_steps = 0;
  }
  if (state_.bad_steps == options_.decr_every_n_nan_or_inf) {
    state_.value = std::max(1.0, state_.value * options_.decr_ratio);
    state_.bad_steps = 0;
  }
}

void LossScale::restore(const LossScaleState& saved) {
  if (options_.dynamic && saved.dynamic) {
    state_ = saved;
    return;
  }
  state_.overflows = saved.overflows;
  state_.overflows_in_a_row = saved.overflows_in_a_row;
}

std::string describe(const LossScale& scale) {
  return formatted("          loss scale {}, {}{} skipped because of overflow so far",
                   scale.value(),
                   scale.overflows(),
                   scale.overflows() == 1 ? " step" : " steps");
}

}  // namespace dimred::engine
