#include "optimizers/rule.h"

namespace dimred::optimizers {

/// a <- rho a + (1 - rho) g^2,  u = g sqrt(b + epsilon) / sqrt(a + epsilon),
/// b <- rho b + (1 - rho) u^2,  w <- w - lr u. Source: Zeiler 2012; tf.train.AdadeltaOptimizer and
/// torch.optim.Adadelta alike.
Rule adadelta(double rho, double epsilon) {
  Rule rule{.state = {{"accumulator"}, {"update_accumulator"}}};
  rule.update = [rho, epsilon](ColumnViews& columns, const torch::Tensor& rate) {
    auto &a = columns.state[0], &b = columns.state[1], &u = columns.gradient;
    a.mul_(rho).addcmul_(u, u, 1 - rho);
    u.mul_(b.add(epsilon).sqrt_()).div_(a.add(epsilon).sqrt_());
    b.mul_(rho).addcmul_(u, u, 1 - rho);
    columns.weights.sub_(u.mul_(rate));
  };
  return rule;
}

}  // namespace dimred::optimizers
