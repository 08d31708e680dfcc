#include "optimizers/sgd.h"

#include "optimizers/rule.h"
#include "support/errors.h"

namespace dimred::optimizers {

void validate(const SgdOptions& options) {
  require(options.momentum >= 0 && options.momentum < 1,
          "[optimizers::sgd] momentum needs [0, 1), received {}",
          options.momentum);
  require(options.weight_decay >= 0,
          "[optimizers::sgd] weight_decay needs >= 0, received {}",
          options.weight_decay);
  require(!options.nesterov || options.momentum > 0,
          "[optimizers::sgd] nesterov needs momentum > 0, received 0");
}

namespace {

/// The kernel's call for weights that decay and for those that do not; `rate` is a number or [].
template <class Rate>
void fused_step(torch::Tensor& weights,
                const torch::Tensor& gradient,
                torch::Tensor& momentum,
                const std::vector<DecayRange>& ranges,
                const Rate& rate,
                const SgdOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> w[2], g[2], m[2];
  for (const auto& range : ranges) {
    const auto [begin, size] = std::pair{range.columns.begin, range.columns.size()};
    w[range.decay].push_back(weights.narrow(0, begin, size));
    g[range.decay].push_back(gradient.narrow(0, begin, size));
    if (options.momentum > 0) m[range.decay].push_back(momentum.narrow(0, begin, size));
  }
  for (const int decay : {0, 1}) {
    if (w[decay].empty()) continue;
    // is_first_step = false throughout: momentum starts at zero, so m = momentum * 0 + g is the
    // same.
    at::_fused_sgd_(w[decay],
                    g[decay],
                    m[decay],
                    decay == 1 ? options.weight_decay : 0.0,
                    options.momentum,
                    rate,
                    /*dampening=*/0,
                    options.nesterov,
                    /*maximize=*/false,
                    /*is_first_step=*/false);
  }
}

class Sgd : public Optimizer {
 public:
  Sgd(const SgdOptions& options, const std::vector<Segment>& segments, const torch::Tensor& like)
      : options_(options), ranges_(decay_ranges(segments)), momentum_(torch::zeros_like(like)) {}

  void step(torch::Tensor& weights,
            const torch::Tensor& gradient,
            const StepControl& control) override {
    if (control.on_device) {
      fused_step(weights, gradient, momentum_, ranges_, control.learning_rate(), options_);
    } else {
      sgd_step(weights, gradient, momentum_, ranges_, control.host_learning_rate(), options_);
    }
  }

  std::map<std::string, torch::Tensor> vectors() override { return {{"momentum", momentum_}}; }

 private:
  SgdOptions options_;
  std::vector<DecayRange> ranges_;
  torch::Tensor momentum_;
};

}  // namespace

void sgd_step(torch::Tensor& weights,
              const torch::Tensor& gradient,
              torch::Tensor& momentum,
              const std::vector<DecayRange>& ranges,
              double learning_rate,
              const SgdOptions& options) {
  fused_step(weights, gradient, momentum, ranges, learning_rate, options);
}

std::unique_ptr<Optimizer> sgd(const SgdOptions& options,
                               const std::vector<Segment>& segments,
                               const torch::Tensor& like) {
  return std::make_unique<Sgd>(options, segments, like);
}

}  // namespace dimred::optimizers
