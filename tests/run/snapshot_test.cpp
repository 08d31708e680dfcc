#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "run/state.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/toy_setup.h"

namespace dimred::run {
namespace {

TEST(Snapshot, IsOfTheWeightsOfItsBeginning) {
  auto setup = engine::toy_setup(models::Precision::float32);
  const auto weights = models::to_file(setup.model.flat.layout, setup.model.flat.weights);
  setup.model.flat.buffers.fill_(2);
  setup.model.flat.counters.fill_(3);
  const auto pending = start_snapshot(
      setup, {.epoch = 4, .step_in_epoch = 1, .step = 13, .epoch_sums = {6, 1, 3}}, {});
  setup.model.flat.weights.detach().zero_();
  setup.model.flat.buffers.zero_();
  setup.model.flat.counters.zero_();
  const auto snapshot = pending();
  EXPECT_EQ(snapshot.weights, weights);
  EXPECT_EQ(snapshot.buffers, std::vector<float>(snapshot.buffers.size(), 2));
  EXPECT_EQ(snapshot.counters, std::vector<std::int64_t>(snapshot.counters.size(), 3));
  EXPECT_EQ(snapshot.epoch, 5);
  EXPECT_EQ(snapshot.step, 13);
  EXPECT_EQ(snapshot.train_loss, 2);
  EXPECT_EQ(snapshot.layout_hash, setup.model.flat.layout.hash);
}

TEST(Snapshot, OfWhatIsNotFiniteIsRefused) {
  for (const bool in_buffers : {false, true}) {
    auto setup = engine::toy_setup(models::Precision::float32);
    auto values = in_buffers ? setup.model.flat.buffers : setup.model.flat.weights.detach();
    values[5] = in_buffers ? INFINITY : NAN;
    EXPECT_THAT(
        start_snapshot(setup, {.step = 13}, {}),
        testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("not finite after step 13")));
  }
}

TEST(Snapshot, IsRankZeros) {
  std::vector<int> has(2, -1);
  on_gloo_ranks(2, [&](distributed::TensorCommunicator& communicator) {
    auto setup = engine::toy_setup(models::Precision::float32);
    setup.communicator = {&communicator, [](auto*) {}};
    has[static_cast<std::size_t>(communicator.rank())] = start_snapshot(setup, {}, {}) ? 1 : 0;
  });
  EXPECT_EQ(has, (std::vector<int>{1, 0}));
}

TEST(Snapshot, ThatCannotBeWrittenFailsOnEveryRank) {
  std::vector<std::string> message(2);
  on_gloo_ranks(2, [&](distributed::TensorCommunicator& communicator) {
    auto setup = engine::toy_setup(models::Precision::float32);
    setup.communicator = {&communicator, [](auto*) {}};
    setup.model.flat.weights.detach()[5] = NAN;
    const auto pending = start_snapshot(setup, {.step = 13}, {});
    checkpoints::BackgroundWriter writer;
    if (pending) writer.submit([&pending] { pending(); });
    try {
      wait_for(writer, setup);
    } catch (const std::runtime_error& error) {
      message[static_cast<std::size_t>(communicator.rank())] = error.what();
    }
  });
  for (const auto& text : message) EXPECT_NE(text.find("after step 13"), std::string::npos) << text;
}

}  // namespace
}  // namespace dimred::run
