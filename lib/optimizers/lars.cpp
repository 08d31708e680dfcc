#include <map>

#include "optimizers/rule.h"

namespace dimred::optimizers {
namespace {

/// u = trust (g + decay w), trust = coefficient |w| / (|g| + decay |w| + epsilon) by parameter (of
/// all ranks' rows), 1 where decay does not apply or |w| or |g| is 0;  m <- momentum m + u;
/// w <- w - lr m.
/// Source: You et al. 2017 in the form of MindSpore's nn.LARS around Momentum.
class Lars : public Optimizer {
 public:
  Lars(const LarsOptions& options,
       const SgdOptions& momentum,
       std::vector<Segment> segments,
       SumOverRanks sum_over_ranks,
       const torch::Tensor& like)
      : options_(options),
        sgd_(momentum),
        segments_(std::move(segments)),
        sum_over_ranks_(std::move(sum_over_ranks)),
        momentum_(torch::zeros_like(like)) {}

  void step(torch::Tensor& weights,
            const torch::Tensor& gradient,
            const StepControl& control) override {
    const torch::NoGradGuard no_grad;
    for (const auto& segment : segments_) {
      const auto view = [&](const torch::Tensor& whole) {
        return whole.narrow(0, segment.columns.begin, segment.columns.size());
      };
      auto w = view(weights), m = view(momentum_);
      const auto g = view(gradient);
      m.mul_(sgd_.momentum).add_(segment.decay ? scaled(segment, w, g) : g);
      w.sub_(m.mul(control.learning_rate()));
    }
  }

  std::map<std::string, torch::Tensor> vectors() override { return {{"momentum", momentum_}}; }

 private:
  /// |w| and |g| [].
  std::pair<torch::Tensor, torch::Tensor> norms(const Segment& segment,
                                                const torch::Tensor& w,
                                                const torch::Tensor& g) const {
    if (!segment.sharded) return {torch::linalg_vector_norm(w, 2), torch::linalg_vector_norm(g, 2)};
    const auto square = [](const torch::Tensor& x) {
      return torch::linalg_vector_norm(x, 2, std::nullopt, false, torch::kFloat64).square();
    };
    auto squares = torch::stack({square(w), square(g)});
    sum_over_ranks_(squares);
    const auto roots = squares.sqrt_().to(w.scalar_type());
    return {roots[0], roots[1]};
  }

  torch::Tensor scaled(const Segment& segment,
                       const torch::Tensor& w,
                       const torch::Tensor& g) const {
    const auto [norm_w, norm_g] = norms(segment, w, g);
    const auto trust =
        options_.coefficient * norm_w / (norm_g + sgd_.weight_decay * norm_w + options_.epsilon);
    const auto usable = (norm_w > 0).logical_and_(norm_g > 0);
    return g.add(w, sgd_.weight_decay).mul_(torch::where(usable, trust, torch::ones_like(trust)));
  }

  LarsOptions options_;
  SgdOptions sgd_;
  std::vector<Segment> segments_;
  SumOverRanks sum_over_ranks_;
  torch::Tensor momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> lars(const LarsOptions& options,
                                const SgdOptions& momentum,
                                std::vector<Segment> segments,
                                SumOverRanks sum_over_ranks,
                                const torch::Tensor& like) {
  return std::make_unique<Lars>(
      options, momentum, std::move(segments), std::move(sum_over_ranks), like);
}

}  // namespace dimred::optimizers
