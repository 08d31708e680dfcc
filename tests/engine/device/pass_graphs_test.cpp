#include "engine/device/pass_graphs.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/attach_network.h"
#include "tests/tools/host_graph.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

/// Six batches of 20, 20, 20, 20, 16 and 20 samples.
std::vector<models::Minibatch> batches() {
  torch::manual_seed(8);
  std::vector<models::Minibatch> all;
  for (const std::int64_t size : {20, 20, 20, 20, 16, 20})
    all.push_back({torch::rand({size, 1, 28, 28}), torch::randint(10, {size}, torch::kInt64)});
  return all;
}

struct Passed {
  std::vector<double> losses, correct;
  std::vector<torch::Tensor> gradients;
  torch::Tensor buffers;
};

Passed passed(Setup& setup) {
  Passed result;
  std::int64_t step = 0;
  for (const auto& batch : batches()) {
    const ForwardKey key{.epoch = 1, .step = step++};
    const auto found = loss_and_gradient(setup, batch, batch.labels.size(0), key);
    EXPECT_EQ(loss_only(setup, batch, key).loss_sum, found.loss_sum);  // dropout's draws, too
    result.losses.push_back(found.loss_sum);
    result.correct.push_back(found.correct_count);
    result.gradients.push_back(setup.model.flat.gradient.clone());
    EXPECT_EQ(found.sample_count, static_cast<double>(batch.labels.size(0)));
    setup.model.flat.weights.sub_(setup.model.flat.gradient, 0.1);
  }
  result.buffers = setup.model.flat.buffers.clone();
  return result;
}

void expect_equal(const Passed& found, const Passed& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.correct, expected.correct);
  for (std::size_t i = 0; i < found.gradients.size(); ++i)
    EXPECT_TRUE(torch::equal(found.gradients[i], expected.gradients[i])) << i;
  EXPECT_TRUE(torch::equal(found.buffers, expected.buffers));
}

TEST(PassGraphs, ReplayedPassesAreThePassesBitForBit) {
  auto plain = toy_setup(models::Precision::float32);
  auto setup = toy_setup(models::Precision::float32);
  int replays = 0;
  setup.model.graphs = host_graphs(replays);
  expect_equal(passed(setup), passed(plain));
  EXPECT_EQ(replays, 2 * 2);  // the fourth batch and the last, gradient and loss each
  EXPECT_TRUE(setup.model.graphs->gradient.is_recorded() && setup.model.graphs->loss.is_recorded());
  EXPECT_EQ(setup.model.graphs->failure, "");
}

TEST(PassGraphs, WhatCannotBeRecordedRunsAsItIs) {
  auto plain = toy_setup(models::Precision::float32);
  auto setup = toy_setup(models::Precision::float32);
  int replays = 0;
  setup.model.graphs = host_graphs(replays, /*fails=*/true);
  expect_equal(passed(setup), passed(plain));
  EXPECT_EQ(replays, 0);
  EXPECT_EQ(setup.model.graphs->failure, "an operator waits for the device");
}

/// As a device's: what the work does on the host is done while it is recorded.
struct RecordingGraph final : DeviceGraph {
  void record(const std::function<void()>& work) override { work(); }
  void replay() override { FAIL() << "host draws would not be made again"; }
};

TEST(PassGraphs, APassThatDrawsOnTheHostIsNotRecorded) {
  std::string failure;
  RecordedPass pass([] { return std::make_unique<RecordingGraph>(); }, failure);
  const Pass draws = [](const models::Minibatch&, const torch::Tensor&) {
    return torch::rand({2}, torch::kFloat64);
  };
  torch::manual_seed(3);
  std::vector<torch::Tensor> found, expected;
  for (int i = 0; i < 6; ++i) found.push_back(pass.run(batches().front(), 1, draws));
  EXPECT_EQ(failure, "the network draws random numbers on the host");
  EXPECT_FALSE(pass.is_recorded());
  for (int i = 0; i < 6; ++i) {
    const auto batch = batches().front();  // which draws, too
    expected.push_back(draws(batch, {}));
  }
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i]));
}

TEST(PassGraphs, NothingIsRecordedAfterAFailureOfTheOther) {
  int made = 0;
  PassGraphs graphs([&made] {
    ++made;
    int replays = 0;
    return std::make_unique<HostGraph>(replays, /*fails=*/true);
  });
  const Pass sums = [](const models::Minibatch&, const torch::Tensor& scale) {
    return torch::stack({scale, scale});
  };
  for (int i = 0; i < 8; ++i) {
    graphs.gradient.run(batches().front(), 1, sums);
    graphs.loss.run(batches().front(), 1, sums);
  }
  EXPECT_EQ(made, 1);
}

TEST(PassGraphs, AResultIsItsPasssOwnHoweverLateItIsAskedFor) {
  auto plain = toy_setup(models::Precision::float32);
  auto setup = toy_setup(models::Precision::float32);
  int replays = 0;
  setup.model.graphs = host_graphs(replays);
  std::vector<PendingResult> pending;
  std::vector<double> expected;
  std::int64_t step = 0;
  for (const auto& batch : batches()) {
    const ForwardKey key{.epoch = 1, .step = step++};
    pending.push_back(start_loss_and_gradient(setup, batch, batch.labels.size(0), key));
    pending.push_back(start_loss(setup, batch, key));
    expected.push_back(loss_and_gradient(plain, batch, batch.labels.size(0), key).loss_sum);
  }
  EXPECT_EQ(replays, 4);
  for (std::size_t i = 0; i < pending.size(); ++i)
    EXPECT_EQ(pending[i].get().loss_sum, expected[i / 2]) << i;
  EXPECT_EQ(pending[0].get().sample_count, 20);  // and again
}

TEST(PassGraphs, WorkIsRecordedAfterThreeTimesAndReplayedFromThenOn) {
  std::string failure;
  int replays = 0, done = 0;
  RecordedWork work([&replays] { return std::make_unique<HostGraph>(replays, false); }, failure);
  for (int i = 1; i <= 6; ++i) {
    work.run([&done] { ++done; });
    EXPECT_EQ(done, i);
    EXPECT_EQ(work.is_recorded(), i > 3);
  }
  EXPECT_EQ(replays, 3);
  RecordedWork failing([&replays] { return std::make_unique<HostGraph>(replays, true); }, failure);
  for (int i = 1; i <= 6; ++i) failing.run([&done] { ++done; });
  EXPECT_EQ(done, 12);
  EXPECT_EQ(failure, "an operator waits for the device");
}

TEST(PassGraphs, TheLossScaleIsThatOfTheStep) {
  auto setup = toy_setup(models::Precision::float32);
  int replays = 0;
  setup.model.graphs = host_graphs(replays);
  const auto batch = batches().front();
  const auto gradient = [&] {
    loss_and_gradient(setup, batch, 20, {.epoch = 1, .step = 0});
    return setup.model.flat.gradient.clone();
  };
  for (int i = 0; i < 4; ++i) gradient();
  const auto before = gradient();
  setup.model.loss_scale = LossScale({.loss_scale = 8});
  EXPECT_TRUE(torch::equal(gradient(), before * 8));
  EXPECT_EQ(replays, 3);
}

TEST(PassGraphs, AreNotForTheCpu) {
  auto setup = toy_setup(models::Precision::float32);
  record_passes(setup, true);
  EXPECT_EQ(setup.model.graphs, nullptr);
  EXPECT_FALSE(device_graphs(torch::kCPU));
}

}  // namespace
}  // namespace dimred::engine
