#include "optimizers/rule.h"

namespace dimred::optimizers {

/// a <- a + g^2, from a = initial;  w <- w - lr g / sqrt(a). If a is 0, so is g, and w stays.
/// Source: Duchi et al. 2011; tf.train.AdagradOptimizer.
Rule adagrad(double initial) {
  Rule rule{.state = {{"accumulator", initial}}};
  rule.update = [](ColumnViews& columns, const torch::Tensor& rate) {
    auto& a = columns.state[0];
    a.addcmul_(columns.gradient, columns.gradient);
    constexpr double least = 1e-30;  // for 0 / 0 in the padding, where the accumulator starts at 0
    columns.weights.sub_(columns.gradient.div_(a.clamp_min(least).sqrt_()).mul_(rate));
  };
  return rule;
}

}  // namespace dimred::optimizers
