#include "training/passes/attack.h"

#include <gtest/gtest.h>

#include "models/network.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::training {
namespace {

constexpr double mean = 0.4, deviation = 0.3;  // of toy_setup

struct Batch {
  explicit Batch(const Setup& setup)
      : buffers(first_batch(setup)), images(to_minibatch(setup.model, buffers)) {}
  data::Batch buffers;
  models::Minibatch images;
};

double loss_of(const Setup& setup, const models::Minibatch& batch) {
  const torch::NoGradGuard no_grad;
  return setup.model.objective->evaluate(batch, models::Mode::evaluate).loss_sum.item<double>();
}

TEST(Attack, FgsmOfALinearNetworkIsTheClosedForm) {
  auto setup = toy_setup(models::Precision::float32, steep_network(1));
  const Batch batch(setup);
  const double epsilon = 0.1;
  const auto found = attacked(
      setup, batch.images, models::Mode::train, {.kind = AttackKind::fgsm, .epsilon = epsilon});

  const torch::NoGradGuard no_grad;
  const auto parameters = setup.model.objective->parameters();
  const auto weight = parameters[0].tensor.to(torch::kFloat64);
  const auto bias = parameters[1].tensor.to(torch::kFloat64);
  const auto x = batch.images.images.flatten(1).to(torch::kFloat64);
  const auto p = torch::softmax(x.matmul(weight.t()) + bias, 1);
  const auto wanted = torch::one_hot(batch.images.labels, 10).to(torch::kFloat64);
  const auto sign = (p - wanted).matmul(weight).sign();
  const auto expected =
      (x + epsilon / deviation * sign).clamp((0 - mean) / deviation, (1 - mean) / deviation);
  EXPECT_LT((found.images.flatten(1).to(torch::kFloat64) - expected).abs().max().item<double>(),
            1e-5);
  EXPECT_GT(loss_of(setup, found), 1.5 * loss_of(setup, batch.images));
  EXPECT_TRUE(torch::equal(found.labels, batch.images.labels));
}

TEST(Attack, PgdStaysInTheCubeAndInThePixelsRange) {
  auto setup = toy_setup(models::Precision::float32);  // BatchNorm and dropout
  const Batch batch(setup);
  const AttackOptions pgd{.kind = AttackKind::pgd, .epsilon = 0.2, .steps = 5};
  const auto buffers = setup.model.flat.buffers.clone();
  const auto gradient = setup.model.flat.gradient.fill_(7).clone();
  const auto weights = setup.model.flat.weights.clone();
  torch::manual_seed(1);
  const auto found = attacked(setup, batch.images, models::Mode::train, pgd);
  torch::manual_seed(1);
  const auto again = attacked(setup, batch.images, models::Mode::train, pgd);
  EXPECT_TRUE(torch::equal(found.images, again.images));
  torch::manual_seed(2);
  const auto other = attacked(setup, batch.images, models::Mode::train, pgd);
  EXPECT_FALSE(torch::equal(found.images, other.images));

  const auto pixels = found.images * deviation + mean;
  EXPECT_GE(pixels.min().item<double>(), -1e-6);
  EXPECT_LE(pixels.max().item<double>(), 1 + 1e-6);
  const auto moved = (found.images - batch.images.images).abs().max().item<double>() * deviation;
  EXPECT_LE(moved, 0.2 + 1e-6);
  EXPECT_GT(moved, 0.19);
  EXPECT_TRUE(torch::equal(setup.model.flat.buffers, buffers));
  EXPECT_TRUE(torch::equal(setup.model.flat.gradient, gradient));
  EXPECT_TRUE(torch::equal(setup.model.flat.weights, weights));
}

TEST(Attack, MoreStepsRaiseTheLossMore) {
  auto setup = toy_setup(models::Precision::float32, steep_network(1));
  const Batch batch(setup);
  torch::manual_seed(1);
  const auto noise =
      attacked(setup,
               batch.images,
               models::Mode::evaluate,
               {.kind = AttackKind::pgd, .epsilon = 0.1, .steps = 1, .step_size = 1e-9});
  const auto attack = attacked(setup,
                               batch.images,
                               models::Mode::evaluate,
                               {.kind = AttackKind::pgd, .epsilon = 0.1, .steps = 20});
  EXPECT_GT(loss_of(setup, attack), 1.2 * loss_of(setup, noise));
}

TEST(Attack, ABatchInPartsIsAttackedAlike) {
  auto setup = toy_setup(models::Precision::float32, steep_network(1));
  const Batch batch(setup);
  const AttackOptions fgsm{.kind = AttackKind::fgsm, .epsilon = 0.1};
  const auto whole = attacked(setup, batch.images, models::Mode::evaluate, fgsm);
  setup.model.gradient_accumulation = 5;  // of 32 images
  const auto parts = attacked(setup, batch.images, models::Mode::evaluate, fgsm);
  EXPECT_LT((whole.images - parts.images).abs().mean().item<double>(), 1e-3);
}

struct Constant final : models::Network {
  Constant() { logits = register_parameter("logits", torch::zeros({10})); }
  torch::Tensor forward(torch::Tensor x) override { return logits.expand({x.size(0), 10}); }
  torch::Tensor logits;
};

TEST(Attack, OfANetworkWithoutAGradientByItsImagesIsRefused) {
  auto setup = toy_setup(models::Precision::float32, std::make_shared<Constant>());
  const Batch batch(setup);
  const auto text = thrown<std::invalid_argument>([&] {
    attacked(setup, batch.images, models::Mode::train, {.kind = AttackKind::fgsm, .epsilon = 0.1});
  });
  EXPECT_NE(text.find("a gradient by its images; this one has none"), std::string::npos) << text;
}

}  // namespace
}  // namespace dimred::training
