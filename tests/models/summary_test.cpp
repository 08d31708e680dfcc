#include "models/summary.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dimred::models {
namespace {

TEST(Summary, CountsTheConvNetByHand) {
  const InputShape input{1, 28, 28};
  const auto network = make_network("convnet", input, 10);
  const auto summary = summarise(*network, input);
  ASSERT_EQ(summary.layers.size(), 5U);
  const auto& conv2 = summary.layers[1];
  EXPECT_EQ(conv2.name, "conv2");
  EXPECT_EQ(conv2.kind, "Conv2d");
  EXPECT_EQ(conv2.weight, (std::vector<std::int64_t>{64, 32, 3, 3}));
  EXPECT_EQ(conv2.output, (std::vector<std::int64_t>{1, 64, 11, 11}));
  EXPECT_EQ(conv2.parameters, 64 * 32 * 9 + 64);
  EXPECT_EQ(conv2.multiply_adds, 64 * 11 * 11 * 32 * 9);
  const auto& fc1 = summary.layers[3];
  EXPECT_EQ(fc1.output, (std::vector<std::int64_t>{1, 64}));
  EXPECT_EQ(fc1.multiply_adds, 64 * 576);
  EXPECT_EQ(summary.parameters, 93322);
  EXPECT_EQ(summary.buffers, 0);
  EXPECT_EQ(summary.multiply_adds,
            32 * 26 * 26 * 9 + 64 * 11 * 11 * 288 + 64 * 9 * 576 + 64 * 576 + 640);
}

// Figures of torchvision's documentation: 25,557,032 parameters and 4.09 G multiply-adds.
TEST(Summary, ResNet50HasThePublishedSize) {
  const InputShape input{3, 224, 224};
  const auto network = make_network("resnet50", input, 1000);
  const auto summary = summarise(*network, input);
  EXPECT_EQ(summary.parameters, 25557032);
  EXPECT_EQ(summary.buffers, 2 * 26560);
  EXPECT_NEAR(static_cast<double>(summary.multiply_adds), 4.09e9, 0.005e9);
  EXPECT_TRUE(std::ranges::all_of(summary.layers, [](const auto& l) { return !l.output.empty(); }));
}

TEST(Registry, EveryNetworkHasItsLogits) {
  for (const auto& name : network_names()) {
    const auto info = network_info(name);
    EXPECT_FALSE(info.logits.empty()) << name;
    EXPECT_GE(info.image_size, 28) << name;
  }
  EXPECT_THROW(network_info("resnet-50"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::models
