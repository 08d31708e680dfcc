#include "engine/device/device_graph.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/functional/dropout.h>
#include <torch/utils.h>

namespace dimred::engine {
namespace {

class DeviceGraphs : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
    make = device_graphs(torch::kCUDA);
  }
  static torch::Tensor dropped(const torch::Tensor& ones) {
    return torch::nn::functional::dropout(
        ones, torch::nn::functional::DropoutFuncOptions().p(0.5).training(true));
  }
  torch::Tensor ones() const { return torch::ones({1000}, torch::kCUDA); }
  MakeGraph make;
};

TEST_F(DeviceGraphs, AReplayDrawsWhatTheWorkWouldDraw) {
  const auto input = ones();
  torch::Tensor output;
  auto graph = make();
  graph->record([&] { output = dropped(input); });
  for (const int seed : {5, 6, 5}) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    const auto expected = dropped(input);
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    graph->replay();
    EXPECT_TRUE(torch::equal(output, expected)) << seed;
  }
}

TEST_F(DeviceGraphs, AfterWorkThatWaitsForTheHostAllElseGoesOn) {
  const auto input = ones();
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(make()->record([&] { dropped(input).sum().item<float>(); }), std::runtime_error);
  EXPECT_THROW(make()->record([] { throw std::runtime_error("of its own"); }), std::runtime_error);
  EXPECT_GT(dropped(input).sum().item<float>(), 0);  // memory and random state can be used
  torch::Tensor output;
  auto graph = make();
  graph->record([&] { output = input * 2; });
  graph->replay();
  EXPECT_EQ(output.sum().item<float>(), 2000);
}

TEST_F(DeviceGraphs, TheFirstReplaySeesWhatWasQueuedBefore) {
  auto input = ones();
  const auto large = torch::rand({4000, 4000}, torch::kCUDA);
  const auto late = large.matmul(large).matmul(large).sum() * 0 + 3;
  input.mul_(late);
  torch::Tensor output;
  auto graph = make();
  graph->record([&] { output = input * 2; });
  graph->replay();
  EXPECT_EQ(output.sum().item<float>(), 6000);
}

TEST_F(DeviceGraphs, GraphsOfOnePoolKeepTheirOwnResults) {
  const auto input = ones();
  torch::Tensor first, second;
  auto one = make(), other = make();
  one->record([&] { first = (input + 1).sum(); });
  other->record([&] { second = (input * 5).sum(); });
  for (int i = 0; i < 2; ++i) {
    one->replay();
    EXPECT_EQ(first.item<float>(), 2000);
    other->replay();
    EXPECT_EQ(second.item<float>(), 5000);
  }
}

}  // namespace
}  // namespace dimred::engine
