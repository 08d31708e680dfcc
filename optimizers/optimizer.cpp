#include "optimizers/optimizer.h"

#include "optimizers/options.h"
#include "optimizers/rule.h"
#include "support/errors.h"
#include "support/option_ranges.h"

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
  OptionTable table("optimizer", "");
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
