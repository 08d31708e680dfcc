#include "models/margin_softmax.h"

#include <gtest/gtest.h>
#include <torch/nn/functional.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <tuple>

#include "support/errors.h"
#include "tests/tools/one_block_softmax.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

namespace F = torch::nn::functional;
constexpr double pi = std::numbers::pi;
const auto float64 = torch::dtype(torch::kFloat64);

struct Problem {
  torch::Tensor features, labels, weights;
};

Problem problem(std::int64_t samples = 9, std::int64_t classes = 11, std::int64_t embedding = 6) {
  torch::manual_seed(3);
  return {torch::randn({samples, embedding}, float64) * 3,
          torch::randint(0, classes, {samples}),
          torch::randn({classes, embedding}, float64)};
}

MarginResult solve(const Problem& p, const Margin& margin) {
  return margin_softmax(p.features, p.labels, p.weights, margin);
}

/// The definition, by torch's own functions and its autograd.
MarginResult by_autograd(const Problem& p, const Margin& margin) {
  auto x = p.features.clone().requires_grad_();
  auto w = p.weights.clone().requires_grad_();
  torch::Tensor logits;
  if (margin.normalized) {
    const auto by_row = F::NormalizeFuncOptions().dim(1);
    const auto cosines = torch::mm(F::normalize(x, by_row), F::normalize(w, by_row).t());
    const auto angles = torch::acos(cosines);
    auto targets = torch::cos(margin.m1 * angles + margin.m2) - margin.m3;
    if (margin.beyond == BeyondPi::linear) {
      targets = torch::where(margin.m1 * angles + margin.m2 >= pi,
                             cosines - margin.m2 * std::sin(margin.m2) - margin.m3,
                             targets);
    }
    const auto own = F::one_hot(p.labels, w.size(0)).to(torch::kBool);
    logits = margin.scale * torch::where(own, targets, cosines);
  } else {
    logits = torch::mm(x, w.t());
  }
  const auto loss = F::cross_entropy(logits, p.labels);
  loss.backward();
  return {.loss = loss.item<double>(), .feature_gradient = x.grad(), .weight_gradient = w.grad()};
}

class Margins : public testing::TestWithParam<Margin> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds,
    Margins,
    testing::Values(Margin{.normalized = false, .scale = 1, .m2 = 0},
                    Margin{.scale = 16, .m2 = 0},
                    Margin{.scale = 64, .m2 = 0.5},
                    Margin{.scale = 10, .m2 = 2.5},  // many targets beyond pi
                    Margin{.scale = 10, .m2 = 2.5, .beyond = BeyondPi::cosine},
                    Margin{.scale = 30, .m2 = 0, .m3 = 0.35},
                    Margin{.scale = 8, .m1 = 1.5, .m2 = 0.3, .m3 = 0.2, .beyond = BeyondPi::cosine},
                    Margin{.scale = 8, .m1 = 4, .m2 = 0, .beyond = BeyondPi::cosine}));

TEST_P(Margins, EqualTorchsAutogradOfTheDefinition) {
  const auto p = problem();
  const auto ours = solve(p, GetParam());
  const auto expected = by_autograd(p, GetParam());
  EXPECT_NEAR(ours.loss, expected.loss, 1e-11 * std::max(1.0, expected.loss));
  EXPECT_TRUE(torch::allclose(ours.feature_gradient, expected.feature_gradient, 1e-9, 1e-11));
  EXPECT_TRUE(torch::allclose(ours.weight_gradient, expected.weight_gradient, 1e-9, 1e-11));
}

/// Cosines of -1, nearly -1, nearly 1 and 1, and rows of zeros, in both types.
TEST_P(Margins, StayFiniteAtTheEndsOfTheCosine) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto w = torch::eye(4, torch::dtype(type));
    auto x = torch::cat({w, -w, w * 1e-20, torch::zeros({4, 4}, type), w * 1e15});
    x[1][0] = 1e-9;
    x[5][0] = 1e-9;
    const auto labels = torch::arange(20) % 4;
    for (const auto& weights : {w, w * 1e-18, torch::zeros({4, 4}, type)}) {
      if (!GetParam().normalized) continue;
      const auto result = margin_softmax(x, labels, weights, GetParam());
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_TRUE(result.feature_gradient.isfinite().all().item<bool>());
      EXPECT_TRUE(result.weight_gradient.isfinite().all().item<bool>());
      EXPECT_EQ(result.feature_gradient.narrow(0, 12, 4).count_nonzero().item<std::int64_t>(), 0);
    }
  }
}

/// insightface's ArcFace: at cos = -1 the target is -1 - m sin m; just inside pi - m it is -1.
TEST(Margin, BeyondPiFallsOnAsInsightfacesDoes) {
  const Margin arcface{.m2 = 0.5};
  const double edge = std::cos(pi - 0.5);
  const auto cosines = torch::tensor({-1.0, edge - 1e-9, edge + 1e-9, 0.0, 1.0}, float64);
  const auto values = with_margin(cosines, arcface, 1e-8).value;
  const auto lower = 0.5 * std::sin(0.5);
  const auto expected =
      torch::tensor({-1 - lower, edge - lower, -1.0, -std::sin(0.5), std::cos(0.5)}, float64);
  EXPECT_TRUE(torch::allclose(values, expected, 0, 1e-8)) << values;
  const Margin plsc{.m2 = 0.5, .beyond = BeyondPi::cosine};
  EXPECT_NEAR(with_margin(cosines, plsc, 1e-8).value[0].item<double>(), -std::cos(0.5), 1e-12);
}

/// Two classes at right angles, one sample on the first: by hand.
TEST(MarginSoftmax, ByHand) {
  const auto w = torch::eye(2, float64);
  const auto x = torch::tensor({{2.0, 0.0}}, float64);
  const auto labels = torch::zeros({1}, torch::kInt64);
  const auto result = margin_softmax(x, labels, w, {.scale = 4, .m2 = 0, .m3 = 0.25});
  EXPECT_NEAR(result.loss, std::log1p(std::exp(0.0 - 4 * 0.75)), 1e-14);
  EXPECT_EQ(result.correct, 1);
  const auto other = margin_softmax(x, torch::ones({1}, torch::kInt64), w, {.scale = 4, .m2 = 0});
  EXPECT_EQ(other.correct, 0);
  EXPECT_NEAR(other.loss, std::log1p(std::exp(4.0)), 1e-14);
}

/// Margins do not count in what is correct; equal cosines do.
TEST(MarginSoftmax, CorrectIsByPlainCosines) {
  const auto p = problem(200, 5, 3);
  const auto by_row = F::NormalizeFuncOptions().dim(1);
  const auto cosines =
      torch::mm(F::normalize(p.features, by_row), F::normalize(p.weights, by_row).t());
  const auto expected = cosines.argmax(1).eq(p.labels).sum().item<std::int64_t>();
  EXPECT_EQ(solve(p, {.m2 = 1}).correct, expected);
}

/// In float32 a target far below its rivals needs a maximum that knows the margin.
TEST(MarginSoftmax, LargeMarginsKeepTheirProbabilitiesInFloat32) {
  const auto w = torch::tensor({{1.F, 0.F}, {-1.F, 0.F}, {-1.F, 0.1F}});
  const auto x = torch::tensor({{1.F, 0.01F}});
  const Margin margin{.scale = 64, .m2 = 3, .beyond = BeyondPi::cosine};
  const auto labels = torch::zeros({1}, torch::kInt64);
  const auto ours = margin_softmax(x, labels, w, margin);
  const auto exact = margin_softmax(x.to(torch::kFloat64), labels, w.to(torch::kFloat64), margin);
  EXPECT_NEAR(ours.loss, exact.loss, 1e-4 * exact.loss);
  EXPECT_TRUE(
      torch::allclose(ours.weight_gradient, exact.weight_gradient.to(torch::kFloat32), 1e-3, 1e-4));
}

/// Plain logits have no bound: a million apart, either way, and one class alone.
TEST(MarginSoftmax, LogitsOfAnySizeStayFinite) {
  const Margin softmax{.normalized = false, .scale = 1, .m2 = 0};
  const auto x = torch::tensor({{1e3F, 0.F}, {1e3F, 0.F}});
  const auto w = torch::tensor({{1e3F, 0.F}, {0.F, 1.F}});
  const auto result = margin_softmax(x, torch::arange(2), w, softmax);
  EXPECT_NEAR(result.loss, 5e5, 1e-6);
  EXPECT_TRUE(torch::equal(result.feature_gradient, torch::tensor({{0.F, 0.F}, {500.F, -0.5F}})));
  const auto alone =
      margin_softmax(x, torch::zeros({2}, torch::kInt64), w.narrow(0, 0, 1), softmax);
  EXPECT_EQ(alone.loss, 0);
  EXPECT_EQ(alone.feature_gradient.abs().max().item<float>(), 0);
}

TEST(MarginOptions, KindsHaveTheirNumbers) {
  const auto arcface = resolved({});
  EXPECT_EQ(std::tie(arcface.scale, arcface.m1, arcface.m2, arcface.m3),
            std::make_tuple(64.0, 1.0, 0.5, 0.0));
  EXPECT_TRUE(arcface.normalized && arcface.beyond == BeyondPi::linear);
  const auto cosface = resolved({.kind = MarginKind::cosface, .scale = 30});
  EXPECT_EQ(std::tie(cosface.scale, cosface.m2, cosface.m3), std::make_tuple(30.0, 0.0, 0.35));
  const auto combined = resolved({.kind = MarginKind::combined, .m1 = 1.2, .m2 = 0.4, .m3 = 0.1});
  EXPECT_TRUE(combined.beyond == BeyondPi::cosine);
  const auto softmax = resolved({.kind = MarginKind::softmax});
  EXPECT_TRUE(!softmax.normalized && softmax.scale == 1 && softmax.m2 == 0);
}

std::string refusal(const MarginOptions& options) {
  return thrown<std::invalid_argument>([&] { resolved(options); });
}

TEST(MarginOptions, RefuseWhatLeavesNoCosine) {
  EXPECT_EQ(refusal({.scale = 0}),
            "[margin_loss] margin_scale needs a number in (0, 300], received 0");
  EXPECT_EQ(refusal({.m2 = 3.2}),
            "[margin_loss] margin_m2 needs a number in [0, 3.141592653589793), received 3.2");
  EXPECT_EQ(refusal({.kind = MarginKind::cosface, .m3 = 2}),
            "[margin_loss] margin_m3 needs a number in [0, 2), received 2");
  EXPECT_EQ(refusal({.kind = MarginKind::combined, .m1 = 0.5}),
            "[margin_loss] margin_m1 needs a number in [1, 4], received 0.5");
  EXPECT_EQ(refusal({.kind = MarginKind::combined, .m1 = 2, .beyond = BeyondPi::linear}),
            "[margin_loss] margin_beyond_pi = linear needs m1 = 1, received 2");
  EXPECT_NE(refusal({.scale = std::nan("")}), "no exception");
}

TEST(MarginOptions, KeepOfTheNumbersThoseOfTheKind) {
  const MarginOptions all{.scale = 8, .m1 = 2, .m2 = 0.2, .m3 = 0.1};
  const auto numbers_of = [&](MarginKind kind) {
    auto options = all;
    options.kind = kind;
    const auto margin = resolved(options);
    return std::array{margin.scale, margin.m1, margin.m2, margin.m3};
  };
  EXPECT_EQ(numbers_of(MarginKind::softmax), (std::array{1.0, 1.0, 0.0, 0.0}));
  EXPECT_EQ(numbers_of(MarginKind::arcface), (std::array{8.0, 1.0, 0.2, 0.0}));
  EXPECT_EQ(numbers_of(MarginKind::cosface), (std::array{8.0, 1.0, 0.0, 0.1}));
  EXPECT_EQ(numbers_of(MarginKind::combined), (std::array{8.0, 2.0, 0.2, 0.1}));
}

TEST(MarginSoftmax, RefusesWhatDoesNotFit) {
  const auto p = problem();
  const auto message = [&](const Problem& wrong) {
    return thrown<std::invalid_argument>([&] { solve(wrong, {}); });
  };
  EXPECT_EQ(message({p.features, p.labels + 11, p.weights}),
            formatted("[margin_loss] needs labels in [0, 11), received {}",
                      11 + p.labels[0].item<std::int64_t>()));
  EXPECT_NE(message({p.features, p.labels, p.weights.narrow(1, 0, 5)}).find("[11, 5]"),
            std::string::npos);
  EXPECT_NE(message({p.features.to(torch::kFloat16), p.labels, p.weights}).find("Half"),
            std::string::npos);
}

}  // namespace
}  // namespace dimred::models
