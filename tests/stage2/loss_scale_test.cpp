#include <gtest/gtest.h>

#include <cmath>

#include "stage2/batch_loss.h"
#include "stage2/method.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/toy_setup.h"

namespace dimred::stage2 {
namespace {

PreparedBatch prepared(training::Setup& setup,
                       const training::Step& now,
                       const PenaltyOptions& penalty,
                       std::optional<double> scale) {
  setup.loss_scale = training::LossScale({.loss_scale = scale});
  static Passes passes;
  return prepare(setup, now, penalty, false, passes);
}

/// Weight decay and SAM's ascent see the gradient as it is, not as it was scaled.
TEST(BatchLossWithLossScale, APowerOfTwoChangesNoBit) {
  for (const auto precision : {models::Precision::float32, models::Precision::bfloat16}) {
    auto setup = training::toy_setup(precision);
    auto batch = training::first_batch(setup);
    const training::Step now{.batch = training::to_minibatch(setup, batch),
                             .global_count = batch.global_count};
    const PenaltyOptions penalty{.weight_decay = 1e-2, .sam_radius = 0.05};
    const auto plain = prepared(setup, now, penalty, {});
    const auto gradient = plain.loss.gradient.clone();
    const auto scaled = prepared(setup, now, penalty, 1024);
    EXPECT_EQ(scaled.loss.loss(), plain.loss.loss());
    EXPECT_TRUE(torch::equal(scaled.loss.gradient, gradient));
    EXPECT_EQ(scaled.loss.evaluate(), plain.loss.loss());
    EXPECT_TRUE(torch::equal(scaled.loss.gradient_here(), gradient));
  }
}

/// Rank 1's part of the batch alone overflows: both ranks leave the step out.
TEST(BatchLossWithLossScale, AnOverflowOfOneRankLeavesTheStepOutOnAll) {
  std::vector<int> left_out(2, -1);
  on_gloo_ranks(2, [&](distributed::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    auto setup = training::toy_setup(models::Precision::float32,
                                     training::steep_network(rank == 1 ? std::ldexp(1, 100) : 1));
    setup.communicator = {&communicator, [](auto*) {}};
    setup.columns = distributed::columns_of(setup.flat.layout, communicator);
    auto batch = training::first_batch(setup);
    const training::Step now{.batch = training::to_minibatch(setup, batch),
                             .global_count = batch.global_count};
    const auto own = distributed::own_columns(setup.flat.gradient, setup.columns);
    const auto method =
        sgd({.communicator = communicator, .columns = setup.columns, .own_columns = own},
            {.learning_rate = 0.1},
            Decay::constant);
    const auto before = setup.flat.weights.clone();
    const auto steep = prepared(setup, now, {}, std::ldexp(1, 60));
    EXPECT_TRUE(std::isfinite(steep.loss.loss()));
    left_out[rank] = method->step(steep.loss, setup.flat.weights, 0).not_finite ? 1 : 0;
    EXPECT_TRUE(torch::equal(setup.flat.weights, before));
    EXPECT_EQ(method->vectors().at("momentum").abs().max().item<float>(), 0);
  });
  EXPECT_EQ(left_out, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace dimred::stage2
