#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "optimizers/optimizer.h"

// Every optimiser, step by step, against its published formula written for one number in float64.
namespace dimred::optimizers {
namespace {

constexpr double epsilon = 1e-3;  // large enough that its place in a formula shows

/// One column: its weight and what the formula carries.
struct Number {
  double w = 0, a = 0, b = 0;
};
using Formula = std::function<void(Number&, double g, double rate, double decay, std::int64_t t)>;

struct Case {
  std::string name;
  OptimizerOptions options;
  Number fresh;  // a and b before the first step
  Formula formula;
};

double l2(const Number& n, double g, double decay) { return g + decay * n.w; }

void momentum_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  n.a = 0.9 * n.a + l2(n, g, decay);
  n.w -= rate * n.a;
}
void sgd_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  n.w -= rate * l2(n, g, decay);
}
void nesterov_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  g = l2(n, g, decay);
  n.a = 0.9 * n.a + g;
  n.w -= rate * (g + 0.9 * n.a);
}
void moments(Number& n, double g) {
  n.a = 0.9 * n.a + 0.1 * g;
  n.b = 0.999 * n.b + 0.001 * g * g;
}
void adam_formula(Number& n, double g, double rate, double decay, std::int64_t t) {
  moments(n, l2(n, g, decay));
  const auto time = static_cast<double>(t);
  rate *= std::sqrt(1 - std::pow(0.999, time)) / (1 - std::pow(0.9, time));
  n.w -= rate * n.a / (std::sqrt(n.b) + epsilon);
}
void adamweightdecay_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  moments(n, g);
  n.w -= rate * (n.a / (std::sqrt(n.b) + epsilon) + decay * n.w);
}
void adagrad_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  g = l2(n, g, decay);
  n.a += g * g;
  n.w -= rate * g / std::sqrt(n.a);
}
void adadelta_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  g = l2(n, g, decay);
  n.a = 0.95 * n.a + 0.05 * g * g;
  const double update = std::sqrt(n.b + epsilon) / std::sqrt(n.a + epsilon) * g;
  n.b = 0.95 * n.b + 0.05 * update * update;
  n.w -= rate * update;
}
void rmsprop_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  g = l2(n, g, decay);
  n.a = 0.8 * n.a + 0.2 * g * g;
  n.b = 0.9 * n.b + rate * g / std::sqrt(n.a + epsilon);
  n.w -= n.b;
}
void ftrl_formula(Number& n, double g, double rate, double decay, std::int64_t) {
  g = l2(n, g, decay);
  const double sum = n.a + g * g, power = 0.6, l1 = 0.3, l2_strength = 0.2;
  const double sigma = (std::pow(sum, power) - std::pow(n.a, power)) / rate;
  n.b += g - sigma * n.w;
  n.a = sum;
  const double quadratic = std::pow(sum, power) / rate + 2 * l2_strength;
  n.w = std::abs(n.b) > l1 ? (std::copysign(l1, n.b) - n.b) / quadratic : 0;
}

std::vector<Case> cases() {
  using enum OptimizerKind;
  const auto with = [](OptimizerKind kind) {
    return OptimizerOptions{.kind = kind,
                            .sgd = {.momentum = 0.9, .weight_decay = 0.1},
                            .epsilon = epsilon,
                            .accumulator = {.adagrad_initial = 0.1, .adadelta_rho = 0.95},
                            .rmsprop = {.momentum = 0.9, .decay = 0.8}};
  };
  auto follow = with(ftrl);
  follow.ftrl = {.learning_rate_power = -0.6, .initial_accumulator = 0.1, .l1 = 0.3, .l2 = 0.2};
  return {{"momentum", with(momentum), {}, momentum_formula},
          {"sgd", with(sgd), {}, sgd_formula},
          {"nesterov", with(nesterov), {}, nesterov_formula},
          {"adam", with(adam), {}, adam_formula},
          {"adamweightdecay", with(adamweightdecay), {}, adamweightdecay_formula},
          {"adagrad", with(adagrad), {.a = 0.1}, adagrad_formula},
          {"adadelta", with(adadelta), {}, adadelta_formula},
          {"rmsprop", with(rmsprop), {.a = 1}, rmsprop_formula},
          {"ftrl", follow, {.a = 0.1}, ftrl_formula}};
}

constexpr std::int64_t size = 20000;  // more than one piece
constexpr std::int64_t decayed = 17000;

/// The first columns decay, the others do not.
std::vector<Segment> two_segments() {
  return {{.columns = {0, decayed}, .decay = true, .size = decayed},
          {.columns = {decayed, size}, .decay = false, .size = size - decayed}};
}

class Rules : public testing::TestWithParam<Case> {};

/// Ten steps in float32 beside float64: some roundings of 6e-8 a step, more where a root of a small
/// accumulator magnifies them.
TEST_P(Rules, EqualsItsPublishedFormulaStepByStep) {
  const auto& [name, options, fresh, formula] = GetParam();
  torch::manual_seed(1);
  auto weights = torch::randn({size});
  std::vector<Number> numbers(size, fresh);
  for (std::int64_t i = 0; i < size; ++i)
    numbers[static_cast<std::size_t>(i)].w = weights.data_ptr<float>()[i];
  const auto optimizer = make_optimizer(options, two_segments(), weights);
  StepControl control(torch::kCPU);
  for (std::int64_t t = 1; t <= 10; ++t) {
    const double rate = 0.1 / static_cast<double>(t);
    const auto gradient = torch::randn({size});
    const auto before = gradient.clone();
    control.set(rate, t);
    optimizer->step(weights, gradient, control);
    EXPECT_TRUE(torch::equal(gradient, before)) << "the gradient was changed";
    double worst = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      auto& number = numbers[static_cast<std::size_t>(i)];
      formula(number, gradient.data_ptr<float>()[i], rate, i < decayed ? 0.1 : 0, t);
      worst = std::max(worst, std::abs(number.w - weights.data_ptr<float>()[i]));
    }
    ASSERT_LT(worst, 1e-5) << name << ", step " << t;
  }
}

/// Schedules begin and end at rate 0.
TEST_P(Rules, StaysWhereItIsAtRateZero) {
  torch::manual_seed(4);
  auto weights = torch::randn({size});
  const auto before = weights.clone();
  const auto optimizer = make_optimizer(GetParam().options, two_segments(), weights);
  StepControl control(torch::kCPU);
  control.set(0, 1);
  optimizer->step(weights, torch::randn({size}), control);
  EXPECT_TRUE(torch::equal(weights, before));
  control.set(0.1, 2);
  optimizer->step(weights, torch::randn({size}), control);
  EXPECT_TRUE(torch::isfinite(weights).all().item<bool>());
  EXPECT_FALSE(torch::equal(weights, before));
}

/// A state taken out and put into a fresh optimiser continues with the same bits.
TEST_P(Rules, ResumesBitwise) {
  const auto& options = GetParam().options;
  torch::manual_seed(2);
  std::vector<torch::Tensor> gradients;
  for (int i = 0; i < 6; ++i) gradients.push_back(torch::randn({size}));
  auto through = torch::randn({size});
  auto weights = through.clone();
  StepControl control(torch::kCPU);
  const auto run = [&](Optimizer& optimizer, torch::Tensor& w, std::size_t from, std::size_t to) {
    for (auto i = from; i < to; ++i) {
      control.set(0.05, static_cast<std::int64_t>(i) + 1);
      optimizer.step(w, gradients[i], control);
    }
  };
  const auto whole = make_optimizer(options, two_segments(), through);
  run(*whole, through, 0, 6);
  const auto first = make_optimizer(options, two_segments(), weights);
  run(*first, weights, 0, 3);
  const auto second = make_optimizer(options, two_segments(), weights);
  auto restored = second->vectors();
  for (auto& [name, vector] : first->vectors()) restored.at(name).copy_(vector);
  run(*second, weights, 3, 6);
  EXPECT_TRUE(torch::equal(through, weights));
}

/// Two ranks' columns apart are the whole vector's; float32 roundings where a vector's end falls
/// elsewhere.
TEST_P(Rules, WorksOnAnyColumnRange) {
  const auto& options = GetParam().options;
  torch::manual_seed(3);
  auto whole = torch::randn({size});
  constexpr std::int64_t cut = 9007;
  auto left = whole.narrow(0, 0, cut).clone(), right = whole.narrow(0, cut, size - cut).clone();
  const auto all = make_optimizer(options, two_segments(), whole);
  const auto one =
      make_optimizer(options, {{.columns = {0, cut}, .decay = true, .size = cut}}, left);
  const auto other = make_optimizer(
      options,
      {{.columns = {0, decayed - cut}, .decay = true, .size = decayed - cut},
       {.columns = {decayed - cut, size - cut}, .decay = false, .size = size - decayed}},
      right);
  StepControl control(torch::kCPU);
  for (std::int64_t t = 1; t <= 4; ++t) {
    const auto gradient = torch::randn({size});
    control.set(0.05, t);
    all->step(whole, gradient, control);
    one->step(left, gradient.narrow(0, 0, cut), control);
    other->step(right, gradient.narrow(0, cut, size - cut), control);
  }
  EXPECT_TRUE(torch::allclose(torch::cat({left, right}), whole, 1e-6, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.name;
});

}  // namespace
}  // namespace dimred::optimizers
