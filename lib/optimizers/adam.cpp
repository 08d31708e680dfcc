#include "optimizers/rule.h"

namespace dimred::optimizers {
namespace {

void moments(ColumnViews& columns, const AdamOptions& options) {
  auto &m = columns.state[0], &v = columns.state[1];
  m.mul_(options.beta1).add_(columns.gradient, 1 - options.beta1);
  v.mul_(options.beta2).addcmul_(columns.gradient, columns.gradient, 1 - options.beta2);
}

}  // namespace

/// m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
/// w <- w - lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).
/// Source: tf.train.AdamOptimizer, the form before section 2.1 of Kingma and Ba 2015;
/// torch.optim.Adam is the same with epsilon * sqrt(1 - beta2^t) for epsilon.
Rule adam(const AdamOptions& options, double epsilon) {
  Rule rule{.state = {{"first_moment"}, {"second_moment"}}};
  rule.prepare = [options](const StepControl& control) {
    const auto& t = control.step();
    const auto first = 1 - torch::pow(options.beta1, t), second = 1 - torch::pow(options.beta2, t);
    return control.learning_rate() * second.sqrt() / first;
  };
  rule.update = [options, epsilon](ColumnViews& columns, const torch::Tensor& rate) {
    moments(columns, options);
    auto denominator = columns.state[1].sqrt().add_(epsilon);
    columns.weights.sub_(torch::div(columns.state[0], denominator).mul_(rate));
  };
  return rule;
}

/// The moments as above, without bias correction; w <- w - lr (m / (sqrt(v) + epsilon) + decay w).
/// Source: FastNN's and BERT's AdamWeightDecayOptimizer.
Rule adamweightdecay(const AdamOptions& options, double epsilon) {
  Rule rule{.state = {{"first_moment"}, {"second_moment"}}, .decoupled = true};
  rule.update = [options, epsilon](ColumnViews& columns, const torch::Tensor& rate) {
    moments(columns, options);
    auto update = torch::div(columns.state[0], columns.state[1].sqrt().add_(epsilon));
    if (columns.decoupled_decay > 0) update.add_(columns.weights, columns.decoupled_decay);
    columns.weights.sub_(update.mul_(rate));
  };
  return rule;
}

}  // namespace dimred::optimizers
