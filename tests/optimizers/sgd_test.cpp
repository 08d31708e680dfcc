#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "optimizers/rule.h"

namespace dimred::optimizers {
namespace {

layout::Layout sgd_segments() {
  return layout::make_layout(
      {{.name = "weight", .shape = {5, 7}}, {.name = "bias", .shape = {5}, .decay = false}});
}

class SgdForms : public testing::TestWithParam<SgdOptions> {};

/// torch::optim::SGD with the same decay groups is the reference; both are float32 with the same
/// operations, a few roundings of 6e-8 a step apart.
TEST_P(SgdForms, EqualsTorchStepByStep) {
  torch::manual_seed(1);
  const auto layout = sgd_segments();
  auto weights = torch::zeros({layout.memory_size});
  auto matrix = torch::randn({35}).requires_grad_(true);
  auto bias = torch::randn({5}).requires_grad_(true);
  const auto bias_offset = layout.entries[1].memory_offset;
  weights.narrow(0, 0, 35).copy_(matrix.detach());
  weights.narrow(0, bias_offset, 5).copy_(bias.detach());

  const auto& options = GetParam();
  const auto optimizer = sgd(options, segments_of(layout), weights);
  StepControl control(torch::kCPU);
  const auto group_options = [&](double decay) {
    return std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(0.1)
                                                          .momentum(options.momentum)
                                                          .weight_decay(decay)
                                                          .nesterov(options.nesterov));
  };
  torch::optim::SGD reference(
      std::vector<torch::optim::OptimizerParamGroup>{
          {{matrix}, group_options(options.weight_decay)}, {{bias}, group_options(0)}},
      torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 10; ++step) {
    auto gradient = torch::zeros({layout.memory_size});
    gradient.narrow(0, 0, 35).normal_();
    gradient.narrow(0, bias_offset, 5).normal_();
    matrix.mutable_grad() = gradient.narrow(0, 0, 35).clone();
    bias.mutable_grad() = gradient.narrow(0, bias_offset, 5).clone();
    reference.step();
    control.set(0.1, step + 1);
    optimizer->step(weights, gradient, control);
    EXPECT_TRUE(torch::allclose(weights.narrow(0, 0, 35), matrix, 1e-6, 1e-6));
    EXPECT_TRUE(torch::allclose(weights.narrow(0, bias_offset, 5), bias, 1e-6, 1e-6));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms,
    SgdForms,
    testing::Values(SgdOptions{.momentum = 0, .weight_decay = 0},
                    SgdOptions{.momentum = 0, .weight_decay = 0.1},
                    SgdOptions{.momentum = 0.9, .weight_decay = 0.1},
                    SgdOptions{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}));

TEST(Sgd, DecayRangesCoverEveryColumnOnce) {
  const auto layout = sgd_segments();
  const auto ranges = decay_ranges(layout);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_TRUE(ranges[0].decay);
  EXPECT_FALSE(ranges[1].decay);
  EXPECT_EQ(ranges[0].columns, (layout::ColumnRange{0, layout.entries[1].memory_offset}));
  EXPECT_EQ(ranges[1].columns,
            (layout::ColumnRange{layout.entries[1].memory_offset, layout.memory_size}));
}

TEST(Sgd, RefusesOptionsOutOfRange) {
  for (const auto& options : {SgdOptions{.momentum = 1},
                              SgdOptions{.weight_decay = -1},
                              SgdOptions{.momentum = 0, .nesterov = true}})
    EXPECT_THROW(validate({.sgd = options}), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::optimizers
