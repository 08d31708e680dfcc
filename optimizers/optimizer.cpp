#include "optimizers/optimizer.h"

#include <cmath>

#include "optimizers/rule.h"
#include "support/errors.h"

namespace dimred::optimizers {
namespace {

template <class... Values>
void needs(bool holds,
           double received,
           std::type_identity_t<FormatString<sizeof...(Values)>> rule,
           const Values&... values) {
  if (holds && std::isfinite(received)) return;
  require(false, "[optimizers] needs {}, received {}", formatted(rule, values...), received);
}

void needs_part(double value, const char* name) {
  needs(value >= 0 && value < 1, value, "{} in [0, 1)", name);
}

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
  step_.fill_(static_cast<double>(step));
}

const std::vector<std::pair<std::string, OptimizerKind>>& optimizer_kinds() {
  static const std::vector<std::pair<std::string, OptimizerKind>> kinds = {
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
  return kinds;
}

std::string name_of(OptimizerKind kind) {
  return optimizer_kinds().at(static_cast<std::size_t>(kind)).first;
}

void validate(const OptimizerOptions& options) {
  require(!options.sgd.nesterov || options.kind == OptimizerKind::momentum ||
              options.kind == OptimizerKind::nesterov,
          "[optimizers] nesterov needs optimizer = momentum, received {}",
          name_of(options.kind));
  validate(sgd_options(options));
  needs(options.epsilon > 0, options.epsilon, "opt_epsilon > 0");
  needs_part(options.adam.beta1, "adam_beta1");
  needs_part(options.adam.beta2, "adam_beta2");
  needs(options.accumulator.adagrad_initial >= 0,
        options.accumulator.adagrad_initial,
        "adagrad_initial_accumulator_value >= 0");
  needs_part(options.accumulator.adadelta_rho, "adadelta_rho");
  needs_part(options.rmsprop.momentum, "rmsprop_momentum");
  needs_part(options.rmsprop.decay, "rmsprop_decay");
  const auto& ftrl = options.ftrl;
  needs(ftrl.learning_rate_power <= 0, ftrl.learning_rate_power, "ftrl_learning_rate_power <= 0");
  needs(
      ftrl.initial_accumulator > 0, ftrl.initial_accumulator, "ftrl_initial_accumulator_value > 0");
  needs(ftrl.l1 >= 0, ftrl.l1, "ftrl_l1 >= 0");
  needs(ftrl.l2 >= 0, ftrl.l2, "ftrl_l2 >= 0");
  needs(options.lars.coefficient > 0, options.lars.coefficient, "lars_coefficient > 0");
  needs(options.lars.epsilon >= 0, options.lars.epsilon, "lars_epsilon >= 0");
  const double most = options.gradient.max_gradient_norm.value_or(1);
  needs(most > 0, most, "max_gradient_norm > 0");
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

}  // namespace dimred::optimizers
