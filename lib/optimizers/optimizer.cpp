#include "optimizers/optimizer.h"

#include "optimizers/rule.h"
#include "support/errors.h"

namespace dimred::optimizers {
namespace {

const std::vector<std::pair<std::string, OptimizerKind>> kinds = {
    {"momentum", OptimizerKind::momentum},
    {"sgd", OptimizerKind::sgd},
    {"nesterov", OptimizerKind::nesterov},
    {"adam", OptimizerKind::adam},
    {"adamweightdecay", OptimizerKind::adamweightdecay},
    {"adagrad", OptimizerKind::adagrad},
    {"adadelta", OptimizerKind::adadelta},
    {"rmsprop", OptimizerKind::rmsprop},
    {"ftrl", OptimizerKind::ftrl},
    {"lars", OptimizerKind::lars}};

SgdOptions sgd_options(const OptimizerOptions& options) {
  auto sgd = options.sgd;
  if (options.kind == OptimizerKind::sgd) sgd.momentum = 0;
  if (options.kind == OptimizerKind::nesterov) sgd.nesterov = true;
  return sgd;
}

}  // namespace

StepControl::StepControl(const torch::Device& device) : on_device(device.is_cuda()) {
  const auto type = device.is_cpu() ? torch::kFloat64 : torch::kFloat32;
  rate_ = torch::zeros({}, torch::TensorOptions(device).dtype(type));
  step_ = torch::zeros_like(rate_);
}

void StepControl::set(double learning_rate, std::int64_t step) {
  host_rate_ = learning_rate;
  rate_.fill_(learning_rate);
  step_.fill_(step);
}

const std::vector<std::pair<std::string, OptimizerKind>>& optimizer_kinds() { return kinds; }

std::string name_of(OptimizerKind kind) { return kinds.at(static_cast<std::size_t>(kind)).first; }

void validate(OptimizerOptions options) {
  OptionTable table("optimizer", "rule that updates the weights; momentum is SGD with momentum");
  add_options(table, options);
  require_ranges(table, "optimizers");
  const auto sgd = sgd_options(options);
  require(!options.sgd.nesterov || options.kind == OptimizerKind::momentum ||
              options.kind == OptimizerKind::nesterov,
          "[optimizers] nesterov needs optimizer = momentum, received {}",
          name_of(options.kind));
  require(!sgd.nesterov || sgd.momentum > 0,
          "[optimizers] nesterov needs momentum > 0, received 0");
}

std::optional<double> usual_learning_rate(OptimizerKind kind) {
  using enum OptimizerKind;
  if (kind == adam || kind == adamweightdecay) return 1e-3;
  if (kind == adagrad || kind == rmsprop) return 1e-2;
  if (kind == adadelta) return 1.0;
  return std::nullopt;
}

bool rate_goes_with_batch(OptimizerKind kind) {
  using enum OptimizerKind;
  return kind == momentum || kind == sgd || kind == nesterov;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Segment> segments,
                                          const torch::Tensor& like,
                                          SumOverRanks sum_over_ranks) {
  validate(options);
  const auto of = [&](Rule rule) {
    return by_rule(std::move(rule), options.sgd.weight_decay, segments, like);
  };
  switch (options.kind) {
    case OptimizerKind::momentum:
    case OptimizerKind::sgd:
    case OptimizerKind::nesterov:
      return sgd(sgd_options(options), segments, like);
    case OptimizerKind::adam:
      return of(adam(options.adam, options.epsilon));
    case OptimizerKind::adamweightdecay:
      return of(adamweightdecay(options.adam, options.epsilon));
    case OptimizerKind::adagrad:
      return of(adagrad(options.accumulator.adagrad_initial));
    case OptimizerKind::adadelta:
      return of(adadelta(options.accumulator.adadelta_rho, options.epsilon));
    case OptimizerKind::rmsprop:
      return of(rmsprop(options.rmsprop, options.epsilon));
    case OptimizerKind::ftrl:
      return of(ftrl(options.ftrl));
    case OptimizerKind::lars:
      return lars(options.lars, options.sgd, std::move(segments), std::move(sum_over_ranks), like);
  }
  check(false, "unknown OptimizerKind");
  return nullptr;
}

namespace {

void add_accumulators(OptionTable& table, OptimizerOptions& options) {
  table
      .add("adagrad_initial_accumulator_value",
           &options.accumulator.adagrad_initial,
           "initial value of adagrad's sums of squared gradients",
           at_least(0))
      .needs(is("optimizer", {"adagrad"}));
  table
      .add("adadelta_rho",
           &options.accumulator.adadelta_rho,
           "decay of adadelta's running means of squares",
           less_than(1))
      .needs(is("optimizer", {"adadelta"}));
  table.add("rmsprop_momentum", &options.rmsprop.momentum, "momentum of rmsprop", less_than(1))
      .needs(is("optimizer", {"rmsprop"}));
  table.add("rmsprop_decay", &options.rmsprop.decay, "decay of rmsprop's mean square", less_than(1))
      .needs(is("optimizer", {"rmsprop"}));
  auto& ftrl = options.ftrl;
  table
      .add("ftrl_learning_rate_power",
           &ftrl.learning_rate_power,
           "power to which ftrl raises its sums of squared gradients to scale the learning rate",
           {.high = 0})
      .needs(is("optimizer", {"ftrl"}));
  table
      .add("ftrl_initial_accumulator_value",
           &ftrl.initial_accumulator,
           "initial value of ftrl's sums of squared gradients",
           positive())
      .needs(is("optimizer", {"ftrl"}));
  table.add("ftrl_l1", &ftrl.l1, "L1 penalty of ftrl", at_least(0))
      .needs(is("optimizer", {"ftrl"}));
  table.add("ftrl_l2", &ftrl.l2, "L2 penalty of ftrl", at_least(0))
      .needs(is("optimizer", {"ftrl"}));
}

}  // namespace

void add_options(OptionTable& table, OptimizerOptions& options) {
  table.group("Optimizer");
  table
      .add_choice("optimizer",
                  &options.kind,
                  "rule that updates the weights; momentum is SGD with momentum",
                  optimizer_kinds())
      .essential();
  table
      .add("momentum",
           &options.sgd.momentum,
           "momentum coefficient of the optimizers momentum, nesterov and lars",
           less_than(1))
      .needs(is("optimizer", {"momentum", "nesterov", "lars"}));
  table.add("weight_decay",
            &options.sgd.weight_decay,
            "L2 penalty on weights (decoupled in adamweightdecay); biases and BatchNorm have none",
            at_least(0));
  table.add("nesterov", &options.sgd.nesterov, "use Nesterov momentum")
      .needs(is("optimizer", {"momentum"}));
  table
      .add("adam_beta1",
           &options.adam.beta1,
           "decay of the mean gradient in adam and adamweightdecay",
           less_than(1))
      .needs(is("optimizer", {"adam", "adamweightdecay"}));
  table
      .add("adam_beta2",
           &options.adam.beta2,
           "decay of the mean square in adam and adamweightdecay",
           less_than(1))
      .needs(is("optimizer", {"adam", "adamweightdecay"}));
  table
      .add("opt_epsilon",
           &options.epsilon,
           "epsilon in the denominator of adam, adamweightdecay, adadelta and rmsprop",
           positive())
      .needs(is("optimizer", {"adam", "adamweightdecay", "adadelta", "rmsprop"}));
  add_accumulators(table, options);
  table
      .add("lars_coefficient",
           &options.lars.coefficient,
           "trust coefficient of lars's layer-wise rate",
           positive())
      .needs(is("optimizer", {"lars"}));
  table
      .add("lars_epsilon",
           &options.lars.epsilon,
           "epsilon added to the gradient's norm in lars",
           at_least(0))
      .needs(is("optimizer", {"lars"}));
  table.add("max_gradient_norm",
            &options.gradient.max_gradient_norm,
            "limit the gradient's norm over all weights and ranks to this value",
            positive());
  table.add("gradient_centralization",
            &options.gradient.centralize,
            "shift the gradient of each output channel to mean 0");
}

}  // namespace dimred::optimizers
