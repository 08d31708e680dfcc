#include "optimizers/options.h"

namespace dimred::optimizers {
namespace {

constexpr Range part{.low = 0, .high = 1, .high_open = true};

void add_accumulators(OptionTable& table, OptimizerOptions& options) {
  table.add("adagrad_initial_accumulator_value",
            &options.accumulator.adagrad_initial,
            "where adagrad's sums of squares start",
            at_least(0));
  table.add("adadelta_rho", &options.accumulator.adadelta_rho, "decay of adadelta's means", part);
  table.add("rmsprop_momentum", &options.rmsprop.momentum, "of rmsprop", part);
  table.add("rmsprop_decay", &options.rmsprop.decay, "of rmsprop's mean square", part);
  auto& ftrl = options.ftrl;
  table.add("ftrl_learning_rate_power",
            &ftrl.learning_rate_power,
            "of ftrl's rate in its sums of squares",
            {.high = 0});
  table.add("ftrl_initial_accumulator_value",
            &ftrl.initial_accumulator,
            "where ftrl's sums of squares start",
            positive());
  table.add("ftrl_l1", &ftrl.l1, "of ftrl", at_least(0));
  table.add("ftrl_l2", &ftrl.l2, "of ftrl", at_least(0));
}

}  // namespace

void add_options(OptionTable& table, OptimizerOptions& options) {
  table.group("Optimizer");
  table.add_choice("optimizer", &options.kind, "momentum: SGD with momentum", optimizer_kinds());
  table.add("momentum", &options.sgd.momentum, "of momentum, nesterov and lars", part);
  table.add("weight_decay",
            &options.sgd.weight_decay,
            "L2 (adamweightdecay: decoupled), not applied to biases and BatchNorm",
            at_least(0));
  table.add("nesterov", &options.sgd.nesterov, "Nesterov's form of the momentum");
  table.add("adam_beta1", &options.adam.beta1, "of adam and adamweightdecay", part);
  table.add("adam_beta2", &options.adam.beta2, "of adam and adamweightdecay", part);
  table.add(
      "opt_epsilon",
      &options.epsilon,
      "added to the root in adam, adamweightdecay, adadelta and rmsprop; a FastNN file means 1",
      positive());
  add_accumulators(table, options);
  table.add("lars_coefficient", &options.lars.coefficient, "trust in a layer's norms", positive());
  table.add(
      "lars_epsilon", &options.lars.epsilon, "beside lars's norm of the gradient", at_least(0));
  table.add("max_gradient_norm",
            &options.gradient.max_gradient_norm,
            "longer gradients are scaled to it, over all weights and ranks",
            positive());
  table.add("gradient_centralization",
            &options.gradient.centralize,
            "each output channel's gradient less its mean");
}

}  // namespace dimred::optimizers
