#include "engine/passes/loss_scale.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>

#include <algorithm>
#include <cmath>

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
  value_ = options.dynamic ? options.init_loss_scaling : options.loss_scale.value_or(1);
}

torch::Tensor LossScale::unscale(torch::Tensor& gradient) const {
  if (!active_) return {};
  const torch::NoGradGuard no_grad;
  const auto single = gradient.options().dtype(torch::kFloat32);
  auto overflow = torch::zeros({1}, single);
  std::vector<torch::Tensor> list{gradient};
  at::_amp_foreach_non_finite_check_and_unscale_(
      list, overflow, torch::full({1}, 1 / value_, single));
  return overflow;
}

void LossScale::update(bool overflow) {
  if (!active_) return;
  in_a_row_ = overflow ? in_a_row_ + 1 : 0;
  overflows_ += overflow ? 1 : 0;
  require_environment(!overflow || options_.drop_overflow,
                      "[loss_scale] the gradient is not finite at loss scale {}, and drop_overflow "
                      "= false ends the run; earlier files are kept",
                      value_);
  require_environment(
      in_a_row_ < most_in_a_row || can_fall(),
      "[loss_scale] the gradient of the last {} steps is not finite, at loss scale {}{}; "
      "earlier files are kept; {}a lower learning_rate or precision = bfloat16 may help",
      in_a_row_,
      value_,
      options_.dynamic ? ", the smallest possible" : ", which is fixed",
      options_.dynamic ? "" : "a smaller loss_scale, use_dynamic_loss_scaling, ");
  if (!options_.dynamic) return;
  good_steps_ = overflow ? 0 : good_steps_ + 1;
  bad_steps_ = overflow ? bad_steps_ + 1 : 0;
  if (good_steps_ == options_.incr_every_n_steps) {
    const double grown = value_ * options_.incr_ratio;
    if (grown <= largest_loss_scale) value_ = grown;
    good_steps_ = 0;
  }
  if (bad_steps_ == options_.decr_every_n_nan_or_inf) {
    value_ = std::max(1.0, value_ * options_.decr_ratio);
    bad_steps_ = 0;
  }
}

LossScaleState LossScale::state() const {
  return {.dynamic = options_.dynamic,
          .value = value_,
          .good_steps = good_steps_,
          .bad_steps = bad_steps_,
          .overflows = overflows_,
          .overflows_in_a_row = in_a_row_};
}

void LossScale::restore(const LossScaleState& saved) {
  overflows_ = saved.overflows;
  in_a_row_ = saved.overflows_in_a_row;
  if (!options_.dynamic || !saved.dynamic) return;
  value_ = saved.value;
  good_steps_ = saved.good_steps;
  bad_steps_ = saved.bad_steps;
}

std::string describe(const LossScale& scale) {
  return formatted("          loss scale {}, {}{} skipped because of overflow so far",
                   scale.value(),
                   scale.overflows(),
                   scale.overflows() == 1 ? " step" : " steps");
}

}  // namespace dimred::engine
