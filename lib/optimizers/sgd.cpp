#include <map>

#include "optimizers/rule.h"

namespace dimred::optimizers {
namespace {

/// torch's fused kernel: reads w, g, m and writes w, m once.
class FusedSgd : public Optimizer {
 public:
  FusedSgd(const SgdOptions& options,
           const std::vector<Segment>& segments,
           const torch::Tensor& like)
      : options_(options), ranges_(decay_ranges(segments)), momentum_(torch::zeros_like(like)) {}

  void step(torch::Tensor& weights,
            const torch::Tensor& gradient,
            const StepControl& control) override {
    if (control.on_device) {
      step_at(control.learning_rate(), weights, gradient);
    } else {
      step_at(control.host_learning_rate(), weights, gradient);
    }
  }

  std::map<std::string, torch::Tensor> vectors() override { return {{"momentum", momentum_}}; }

 private:
  /// A call for decaying weights and one for the others; `rate` is a number or [].
  template <class Rate>
  void step_at(const Rate& rate, torch::Tensor& weights, const torch::Tensor& gradient) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> w[2], g[2], m[2];
    for (const auto& [columns, decay] : ranges_) {
      const auto view = [begin = columns.begin, size = columns.size()](const torch::Tensor& whole) {
        return whole.narrow(0, begin, size);
      };
      w[decay].push_back(view(weights));
      g[decay].push_back(view(gradient));
      if (options_.momentum > 0) m[decay].push_back(view(momentum_));
    }
    for (const int decay : {0, 1}) {
      if (w[decay].empty()) continue;
      // is_first_step = false throughout: momentum starts at zero, so m = momentum * 0 + g is the
      // same.
      at::_fused_sgd_(w[decay],
                      g[decay],
                      m[decay],
                      decay == 1 ? options_.weight_decay : 0.0,
                      options_.momentum,
                      rate,
                      /*dampening=*/0,
                      options_.nesterov,
                      /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }

  SgdOptions options_;
  std::vector<DecayRange> ranges_;
  torch::Tensor momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> sgd(const SgdOptions& options,
                               const std::vector<Segment>& segments,
                               const torch::Tensor& like) {
  return std::make_unique<FusedSgd>(options, segments, like);
}

}  // namespace dimred::optimizers
