#include "models/autocast.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "models/network.h"
#include "models/objective.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

/// Keeps what its layers gave in the last pass.
struct Probe final : Network {
  Probe() {
    torch::manual_seed(4);
    conv = register_module("conv", torch::nn::Conv2d(1, 3, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    fc = register_module("fc", torch::nn::Linear(3 * 4 * 4, 5));
  }
  torch::Tensor forward(torch::Tensor x) override {
    rectified = torch::relu(x);
    stacked = torch::stack({x, x});
    convolved = conv(x);
    normalised = norm(convolved);
    normalised_input = norm_of_input(x);
    return fc(torch::relu(normalised).flatten(1));
  }
  torch::Tensor norm_of_input(const torch::Tensor& x) {
    return torch::batch_norm(x, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear fc{nullptr};
  torch::Tensor mean = torch::zeros({1}), variance = torch::ones({1});
  torch::Tensor rectified, stacked, convolved, normalised, normalised_input;
};

struct Pass {
  std::shared_ptr<Probe> probe = std::make_shared<Probe>();
  torch::Tensor images = torch::randn({8, 1, 6, 6}, at::detail::createCPUGenerator(3)), logits,
                gradient;
  double loss = 0;

  Pass(Precision precision, const AmpLists& lists) {
    const auto objective = classifier(probe, {.precision = precision, .amp = lists});
    const auto labels = torch::arange(8) % 5;
    const auto evaluation = objective->evaluate({images, labels}, Mode::train);
    evaluation.loss_sum.backward();
    loss = evaluation.loss_sum.item<double>();
    gradient = probe->conv->weight.grad();
    logits = objective->logits(images, Mode::train).detach();
  }
};

TEST(AmpCasts, DenyingAllThatAutocastHasIsFloat32BitForBit) {
  const Pass plain(Precision::float32, {}), narrow(Precision::bfloat16, {});
  EXPECT_EQ(narrow.probe->convolved.scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(torch::equal(narrow.logits.to(torch::kFloat32), plain.logits));
  const Pass denied(Precision::bfloat16, {.deny = {"conv2d", "linear"}});
  EXPECT_EQ(denied.logits.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(denied.logits, plain.logits));
  EXPECT_TRUE(torch::equal(denied.gradient, plain.gradient));
}

TEST(AmpCasts, AnAllowedOperatorSeesTheNarrowerTypeInEveryArgument) {
  const Pass plain(Precision::bfloat16, {});
  EXPECT_EQ(plain.probe->rectified.scalar_type(), torch::kFloat32);
  EXPECT_EQ(plain.probe->stacked.scalar_type(), torch::kFloat32);
  const Pass allowed(Precision::bfloat16, {.allow = {"relu", "stack"}});
  const auto rounded = allowed.images.to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(allowed.probe->rectified, torch::relu(rounded)));
  EXPECT_TRUE(torch::equal(allowed.probe->stacked, torch::stack({rounded, rounded})));
}

TEST(AmpCasts, ANormalisationsStatisticsStayFloat32AndMove) {
  const Pass denied(Precision::bfloat16, {.deny = {"batch_norm"}});
  EXPECT_EQ(denied.probe->convolved.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(denied.probe->normalised.scalar_type(), torch::kFloat32);
  const Pass allowed(Precision::bfloat16, {.allow = {"batch_norm"}});
  EXPECT_EQ(allowed.probe->normalised_input.scalar_type(), torch::kBFloat16);
  Probe twin;
  for (int pass = 0; pass < 2; ++pass) twin.norm_of_input(allowed.images.to(torch::kBFloat16));
  EXPECT_EQ(twin.mean.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(allowed.probe->mean, twin.mean));
  EXPECT_NE(twin.mean.item<float>(), 0);
}

TEST(AmpCasts, EndWithTheObjective) {
  { const Pass denied(Precision::bfloat16, {.deny = {"conv2d"}}); }
  EXPECT_EQ(Pass(Precision::bfloat16, {}).probe->convolved.scalar_type(), torch::kBFloat16);
}

TEST(AmpLists, AreRefusedByName) {
  const auto refusal = [](const AmpLists& lists) {
    return thrown<std::invalid_argument>([&] { validate(lists); });
  };
  EXPECT_EQ(refusal({.allow = {"batchnorm"}}),
            "[precision] amp_allow needs ATen operators that return new tensors, received "
            "batchnorm; did you mean batch_norm?");
  EXPECT_NE(refusal({.deny = {"relu_"}}).find("did you mean relu?"), std::string::npos);
  EXPECT_NE(refusal({.deny = {""}}).find("amp_deny needs"), std::string::npos);
  EXPECT_NE(refusal({.allow = {"relu", "mean"}, .deny = {"mean"}})
                .find("received mean in both amp_allow"),
            std::string::npos);
  EXPECT_EQ(refusal({.allow = {"relu"}, .deny = {"mean"}}), "no exception");
}

/// Logits of magnitude 1 rounded to 11 bits, a few layers: 1e-2 is ten times what is seen.
TEST(Float16, PassesAreHalfAndItsLossIsFloat32s) {
  const Pass half(Precision::float16, {}), plain(Precision::float32, {});
  EXPECT_EQ(half.probe->convolved.scalar_type(), torch::kFloat16);
  EXPECT_EQ(half.gradient.scalar_type(), torch::kFloat32);
  EXPECT_NE(half.loss, plain.loss);
  EXPECT_NEAR(half.loss, plain.loss, 1e-2);
}

}  // namespace
}  // namespace dimred::models
