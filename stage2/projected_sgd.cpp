#include <cmath>
#include <nlohmann/json.hpp>

#include "stage2/method.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

class ProjectedSgd : public Method {
 public:
  ProjectedSgd(Place place,
               const RateOptions& rates,
               const ResidualOptions& residual,
               Decay rate_decay,
               Decay alpha_decay)
      : place_(std::move(place)),
        rates_(rates),
        residual_(residual),
        rate_decay_(rate_decay),
        alpha_decay_(alpha_decay),
        velocity_(static_cast<std::size_t>(place_.subspace.components())),
        residual_momentum_(torch::zeros_like(place_.own_columns)) {}

  StepReport step(const BatchLoss& batch, torch::Tensor& weights, double progress) override {
    const torch::NoGradGuard no_grad;
    const double rate = rates_.learning_rate * factor(rate_decay_, progress);
    const double alpha = residual_.alpha * factor(alpha_decay_, progress);

    auto g_k = project(place_.subspace, batch.gradient, {batch.gradient});
    place_.communicator.all_reduce(g_k);
    const double square = g_k.back();
    g_k.pop_back();
    StepReport report{.loss = batch.loss(), .rate = rate};
    report.not_finite = !std::isfinite(square) || !std::isfinite(report.loss);
    if (report.not_finite) return report;

    double inside = 0;
    for (std::size_t i = 0; i < g_k.size(); ++i) {
      velocity_[i] = rates_.momentum * velocity_[i] + g_k[i];
      inside += g_k[i] * g_k[i];
      report.slope -= rate * g_k[i] * velocity_[i];
      report.direction_norm += velocity_[i] * velocity_[i];
    }
    report.direction_norm = std::sqrt(report.direction_norm);
    report.residual_norm = std::sqrt(std::max(0.0, square - inside));

    const auto [forward, projected] =
        back_project(place_.subspace, velocity_, g_k, batch.gradient);  // P'v, P'g_k
    auto u = forward.mul_(-rate);
    if (alpha > 0) {
      residual_momentum_.mul_(residual_.gamma).add_(batch.gradient).sub_(projected);
      u.sub_(residual_momentum_, alpha);
    }
    weights.add_(all_gather(place_.communicator, u, place_.columns));
    report.step_size = rate;
    report.search.outcome = SearchOutcome::accepted;
    return report;
  }

  nlohmann::json numbers() const override { return {{"velocity", velocity_}}; }

  void restore_numbers(const nlohmann::json& numbers) override {
    const auto saved = numbers.at("velocity").get<std::vector<double>>();
    require(saved.size() == velocity_.size(),
            "stage2::state",
            "the state's velocity has ",
            saved.size(),
            " numbers, the basis now needs ",
            velocity_.size());
    velocity_ = saved;
  }

  std::map<std::string, torch::Tensor> vectors() override {
    return {{"residual_momentum", residual_momentum_}};
  }

 private:
  Place place_;
  RateOptions rates_;
  ResidualOptions residual_;
  Decay rate_decay_, alpha_decay_;
  std::vector<double> velocity_;
  torch::Tensor residual_momentum_;
};

}  // namespace

std::unique_ptr<Method> projected_sgd(Place place,
                                      const RateOptions& rates,
                                      const ResidualOptions& residual,
                                      Decay rate_decay,
                                      Decay alpha_decay) {
  return std::make_unique<ProjectedSgd>(std::move(place), rates, residual, rate_decay, alpha_decay);
}

}  // namespace dimred::stage2
