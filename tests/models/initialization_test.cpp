#include "models/initialization.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/network.h"
#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::models {
namespace {

/// Xavier's bound for a convolution [out, in, 3, 3], and the truncated normal's deviation.
TEST(Initialization, MindsporesDistributionsHaveTheirBoundsAndMoments) {
  torch::manual_seed(3);
  const auto network = make_network("vgg11", {3, 32, 32}, 10);
  initialise_as_mindspore(*network);
  const auto weights = network->named_parameters();
  const auto convolution = weights["features.11.weight"];  // [512, 256, 3, 3]
  const double bound = std::sqrt(6.0 / (9 * (512 + 256)));
  EXPECT_LE(convolution.abs().max().item<double>(), bound);
  EXPECT_NEAR(convolution.abs().max().item<double>(), bound, 1e-4 * bound);
  EXPECT_NEAR(convolution.std().item<double>(), bound / std::sqrt(3), 2e-3 * bound);
  const auto dense = weights["classifier.3.weight"];  // [4096, 4096]
  EXPECT_LE(dense.abs().max().item<double>(), 0.02 + 1e-8);
  EXPECT_GT(dense.abs().max().item<double>(), 0.0199);
  EXPECT_NEAR(dense.mean().item<double>(), 0, 1e-5);
  constexpr double cut_deviation = 0.8796256610342398;  // of N(0, 1) within +-2
  EXPECT_NEAR(dense.std().item<double>(), 0.01 * cut_deviation, 1e-5);
  EXPECT_EQ(weights["classifier.3.bias"].abs().max().item<double>(), 0);
  EXPECT_EQ(weights["features.0.bias"].abs().max().item<double>(), 0);
}

TEST(Initialization, BatchNormTakesTheConstantsGiven) {
  torch::manual_seed(3);
  const auto network = make_network("resnet20", {1, 8, 8}, 10);
  const auto images = torch::randn({4, 1, 8, 8});
  network->eval();
  const torch::NoGradGuard no_grad;
  const auto before = network->forward(images);
  set_constants(*network, {});
  EXPECT_TRUE(torch::equal(network->forward(images), before));
  set_constants(*network, {.eps = 3, .momentum = 0.5});
  EXPECT_FALSE(torch::allclose(network->forward(images), before));
  network->train();
  network->forward(images);  // the running mean moves from 0 half the way to the batch's
  const auto weights = network->named_parameters();
  const auto first = torch::conv2d(images, weights["conv1.weight"], {}, 1, 1);
  EXPECT_TRUE(torch::allclose(
      network->named_buffers()["bn1.running_mean"], 0.5 * first.mean({0, 2, 3}), 1e-5, 1e-6));
}

TEST(Initialization, ANetworkWithoutBatchNormRefusesItsConstants) {
  const auto network = make_network("convnet", {1, 28, 28}, 10);
  const auto text = thrown<std::invalid_argument>([&] { set_constants(*network, {.eps = 1e-4}); });
  EXPECT_NE(text.find("batch_norm_eps needs a built-in network with BatchNorm layers"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace dimred::models
