#include <cmath>
#include <nlohmann/json.hpp>

#include "stage2/method.h"
#include "stage2/projection.h"

namespace dimred::stage2 {
namespace {

class Sgd : public Method {
 public:
  Sgd(Place place, const RateOptions& rates, Decay rate_decay)
      : place_(std::move(place)),
        rates_(rates),
        rate_decay_(rate_decay),
        momentum_(torch::zeros_like(place_.own_columns)) {}

  StepReport step(const BatchLoss& batch, torch::Tensor& weights, double progress) override {
    const torch::NoGradGuard no_grad;
    const double rate = rates_.learning_rate * factor(rate_decay_, progress);
    std::vector<double> numbers{inner_product(batch.gradient, batch.gradient)};
    place_.communicator.all_reduce(numbers);
    StepReport report{.loss = batch.loss(), .rate = rate};
    report.not_finite = !std::isfinite(numbers[0]) || !std::isfinite(report.loss);
    if (report.not_finite) return report;
    report.residual_norm = std::sqrt(numbers[0]);
    momentum_.mul_(rates_.momentum).add_(batch.gradient);
    weights.sub_(all_gather(place_.communicator, momentum_, place_.columns), rate);
    report.step_size = rate;
    report.search.outcome = SearchOutcome::accepted;
    return report;
  }

  nlohmann::json numbers() const override { return nlohmann::json::object(); }
  void restore_numbers(const nlohmann::json& /*numbers*/) override {}
  std::map<std::string, torch::Tensor> vectors() override { return {{"momentum", momentum_}}; }

 private:
  Place place_;
  RateOptions rates_;
  Decay rate_decay_;
  torch::Tensor momentum_;
};

}  // namespace

std::unique_ptr<Method> sgd(Place place, const RateOptions& rates, Decay rate_decay) {
  return std::make_unique<Sgd>(std::move(place), rates, rate_decay);
}

}  // namespace dimred::stage2
