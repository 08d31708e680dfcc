#include "models/loss.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <cmath>

#include "models/network.h"
#include "models/objective.h"

namespace dimred::models {
namespace {

TEST(CrossEntropy, EqualsTorchWithAndWithoutSmoothing) {
  torch::manual_seed(1);
  const auto logits = torch::randn({8, 10});
  const auto labels = torch::randint(0, 10, {8});
  for (const double s : {0.0, 0.1, 0.5}) {
    const auto expected =
        torch::nn::functional::cross_entropy(logits,
                                             labels,
                                             torch::nn::functional::CrossEntropyFuncOptions()
                                                 .reduction(torch::kNone)
                                                 .label_smoothing(s));
    EXPECT_TRUE(torch::allclose(
        cross_entropy(logits, labels, {.label_smoothing = s}), expected, 1e-6, 1e-6));
  }
}

TEST(CrossEntropy, MindSporeFormHasItsOwnTargets) {
  // Probabilities 1/2, 1/4, 1/4, label 0, s = 0.2: target 0.8, others 0.1 each.
  const auto logits = torch::log(torch::tensor({{0.5F, 0.25F, 0.25F}}));
  const auto loss =
      cross_entropy(logits,
                    torch::tensor({int64_t{0}}),
                    {.label_smoothing = 0.2, .smoothing_form = SmoothingForm::mindspore});
  EXPECT_NEAR(loss.item<float>(), 0.8 * std::log(2) + 0.2 * std::log(4), 1e-6);
}

TEST(CrossEntropy, RefusesSmoothingOutOfRange) {
  EXPECT_THROW(
      cross_entropy(torch::zeros({1, 2}), torch::zeros({1}, torch::kInt64), {.label_smoothing = 1}),
      std::invalid_argument);
}

TEST(Classifier, SmoothsInTrainingAlone) {
  const auto classifier_with = [](double smoothing) {
    torch::manual_seed(5);
    return classifier(make_network("lenet", {1, 28, 28}, 10),
                      {.loss = {.label_smoothing = smoothing}});
  };
  torch::manual_seed(6);
  const Minibatch batch{torch::randn({4, 1, 28, 28}), torch::randint(0, 10, {4})};
  const auto loss = [&](double smoothing, Mode mode) {
    return classifier_with(smoothing)->evaluate(batch, mode).loss_sum.item<double>();
  };
  EXPECT_EQ(loss(0.3, Mode::evaluate), loss(0, Mode::evaluate));
  EXPECT_NE(loss(0.3, Mode::train), loss(0, Mode::train));
}

}  // namespace
}  // namespace dimred::models
