#include <nlohmann/json.hpp>

#include "stage2/method.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

std::vector<double> list(const Eigen::MatrixXd& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

/// The JSON array `key` into a matrix or vector that has its size already.
template <class Matrix>
void restore(const nlohmann::json& values, const char* what, Matrix& target) {
  const auto numbers = values.get<std::vector<double>>();
  require(static_cast<Eigen::Index>(numbers.size()) == target.size(),
          "stage2::state",
          "the state's ",
          what,
          " has ",
          numbers.size(),
          " numbers, n_component now needs ",
          target.size());
  std::copy(numbers.begin(), numbers.end(), target.data());
}

class QuasiNewton : public Method {
 public:
  QuasiNewton(Place place, const StepOptions& options, Decay alpha_decay)
      : place_(std::move(place)),
        options_(options),
        alpha_decay_(alpha_decay),
        state_(initial_state(place_)) {}

  StepReport step(const BatchLoss& batch, torch::Tensor& weights, double progress) override {
    auto now = options_;
    now.residual.alpha *= factor(alpha_decay_, progress);
    auto report = stage2::step(place_, batch, weights, state_, now);
    report.rate = now.residual.alpha;
    return report;
  }

  nlohmann::json numbers() const override {
    nlohmann::json hessians = nlohmann::json::array();
    for (const auto& h : state_.inverse_hessians) hessians.push_back(list(h));
    return {{"inverse_hessians", hessians},
            {"s", list(state_.s)},
            {"last_gradient", list(state_.last_gradient)},
            {"has_last", state_.has_last}};
  }

  void restore_numbers(const nlohmann::json& numbers) override {
    const auto& hessians = numbers.at("inverse_hessians");
    auto& own = state_.inverse_hessians;
    require(hessians.size() == own.size(),
            "stage2::state",
            "the state's inverse Hessian has ",
            hessians.size(),
            " blocks, the basis now needs ",
            own.size());
    for (std::size_t i = 0; i < own.size(); ++i) restore(hessians[i], "inverse_hessian", own[i]);
    restore(numbers.at("s"), "s", state_.s);
    restore(numbers.at("last_gradient"), "last_gradient", state_.last_gradient);
    state_.has_last = numbers.at("has_last");
  }

  std::map<std::string, torch::Tensor> vectors() override {
    return {{"residual_momentum", state_.residual_momentum}};
  }

 private:
  Place place_;
  StepOptions options_;
  Decay alpha_decay_;
  StepState state_;
};

}  // namespace

std::unique_ptr<Method> quasi_newton(Place place, const StepOptions& options, Decay alpha_decay) {
  return std::make_unique<QuasiNewton>(std::move(place), options, alpha_decay);
}

}  // namespace dimred::stage2
