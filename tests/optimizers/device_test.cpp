#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include "cuda/cuda.h"
#include "optimizers/optimizer.h"

namespace dimred::optimizers {
namespace {

/// Weights after five steps from numbers that depend on the seed alone.
torch::Tensor stepped(OptimizerKind kind, torch::Device device) {
  constexpr std::int64_t columns = 20000, with_decay = 17000;
  torch::manual_seed(5);
  auto weights = torch::randn({columns}).to(device);
  const auto optimizer =
      make_optimizer({.kind = kind, .epsilon = 1e-3},
                     {{.columns = {0, with_decay}, .decay = true, .rows = 17, .size = with_decay},
                      {.columns = {with_decay, columns}, .size = columns - with_decay}},
                     weights);
  StepControl control(device);
  for (std::int64_t t = 1; t <= 5; ++t) {
    const auto gradient = torch::randn({columns}).to(device);
    control.set(0.1 / static_cast<double>(t), t);
    optimizer->step(weights, gradient, control);
  }
  return weights.cpu();
}

/// Rates are float32 on the device and float64 on the processor: a few roundings of 6e-8 a step.
TEST(DeviceOptimizers, TakeTheProcessorsSteps) {
  // Named here, so that this program loads torch's CUDA part, too.
  if (cuda::library().functions == nullptr || !torch::cuda::is_available())
    GTEST_SKIP() << "needs a CUDA device";
  for (const auto& [name, kind] : optimizer_kinds())
    EXPECT_TRUE(torch::allclose(
        stepped(kind, torch::kCUDA), stepped(kind, torch::kCPU), /*rtol=*/1e-5, /*atol=*/1e-5))
        << name;
}

}  // namespace
}  // namespace dimred::optimizers
