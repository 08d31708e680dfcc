#include "optimizers/rule.h"

namespace dimred::optimizers {

/// n = a + g^2, from a = initial;  z <- z + g - (n^-p - a^-p) / lr * w,  a <- n, with p =
/// learning_rate_power;  w <- (l1 sign(z) - z) / (n^-p / lr + 2 l2) where |z| > l1, else 0. Source:
/// McMahan et al. 2013; tf.train.FtrlOptimizer. A step at rate 0, for which the formula is 0/0,
/// changes nothing.
Rule ftrl(const FtrlOptions& options) {
  Rule rule{.state = {{"accumulator", options.initial_accumulator}, {"linear"}},
            .needs_rate = true};
  rule.update = [options](ColumnViews& columns, const torch::Tensor& rate) {
    auto &a = columns.state[0], &z = columns.state[1], &w = columns.weights;
    const auto power = [&options](const torch::Tensor& values) {
      return options.learning_rate_power == -0.5 ? values.sqrt()
                                                 : values.pow(-options.learning_rate_power);
    };
    const auto before = power(a);
    a.addcmul_(columns.gradient, columns.gradient);
    auto after = power(a);
    z.add_(columns.gradient).sub_((after - before).div_(rate).mul_(w));
    auto numerator = torch::clamp(z, -options.l1, options.l1).sub_(z);  // 0 where |z| <= l1
    constexpr double least = 1e-30;  // for the padding, whose accumulator a resume sets to 0
    w.copy_(numerator.div_(after.div_(rate).add_(2 * options.l2).clamp_min_(least)));
  };
  return rule;
}

}  // namespace dimred::optimizers
