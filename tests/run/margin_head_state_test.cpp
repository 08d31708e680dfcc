#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "run/state.h"
#include "tests/tools/margin_setup.h"

namespace dimred::run {
namespace {

TEST(MarginHeadStates, AreTheSameBytesForAnyNumberOfRanksAndBack) {
  std::vector<checkpoints::State> states;
  for (const int ranks : {1, 3, 2, 1}) {
    checkpoints::State next;
    engine::on_ranks(ranks, [&](const auto& communicator) {
      auto setup = engine::setup_on(communicator, engine::arcface());
      setup.data.train = std::make_shared<engine::ToyData>(96);
      if (!states.empty()) {
        const torch::NoGradGuard no_grad;
        setup.model.flat.weights.zero_();
        const auto saved = shared_state(setup, [&] { return std::optional(states.back()); });
        restore_network(*saved, "stage1", setup);
      }
      auto saved = network_state(setup, "stage1", {}, {});
      if (communicator->rank() == 0) next = std::move(saved);
    });
    states.push_back(std::move(next));
  }
  for (std::size_t i = 1; i < states.size(); ++i) {
    EXPECT_EQ(states[i].vectors, states[0].vectors) << i;
    EXPECT_EQ(states[i].scalars, states[0].scalars) << i;
  }
  EXPECT_GT(states[0].vectors.at("weights").size(),
            engine::margin_classes * engine::embedding_width);
}

TEST(MarginHeadStates, RowsThatOneRankAloneHasEndAllWhenTheyAreNotFinite) {
  on_gloo_ranks(2, [&](distributed::TensorCommunicator& communicator) {
    auto setup = engine::setup_on({&communicator, [](auto*) {}}, engine::arcface());
    const torch::NoGradGuard no_grad;
    if (communicator.rank() == 1)
      setup.model.flat.weights.narrow(0, setup.model.columns.sharded.begin, 1).fill_(NAN);
    EXPECT_THROW(network_state(setup, "stage1", {}, {}), std::runtime_error);
  });
}

}  // namespace
}  // namespace dimred::run
