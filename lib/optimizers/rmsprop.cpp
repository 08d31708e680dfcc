#include "optimizers/rule.h"

namespace dimred::optimizers {

/// a <- decay a + (1 - decay) g^2, from a = 1;  m <- momentum m + lr g / sqrt(a + epsilon);
/// w <- w - m. Source: tf.train.RMSPropOptimizer (torch.optim's starts at a = 0, has epsilon
/// outside the root and the rate outside m).
Rule rmsprop(const RmspropOptions& options, double epsilon) {
  Rule rule{.state = {{"mean_square", 1}, {"momentum"}}};
  rule.update = [options, epsilon](ColumnViews& columns, const torch::Tensor& rate) {
    auto &a = columns.state[0], &m = columns.state[1], &g = columns.gradient;
    a.mul_(options.decay).addcmul_(g, g, 1 - options.decay);
    m.mul_(options.momentum).add_(g.mul_(rate).div_(a.add(epsilon).sqrt_()));
    columns.weights.sub_(m);
  };
  return rule;
}

}  // namespace dimred::optimizers
