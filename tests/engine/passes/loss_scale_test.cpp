#include "engine/passes/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/gloo_ranks.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

LossScaleOptions moving(double start, std::int64_t grows_after, std::int64_t falls_after) {
  return {.dynamic = true,
          .init_loss_scaling = start,
          .incr_every_n_steps = grows_after,
          .decr_every_n_nan_or_inf = falls_after};
}

/// The scale after each step; x overflows, a dot does not.
std::vector<double> scale_values(LossScale& scale, std::string_view steps) {
  std::vector<double> after;
  for (const char step : steps) {
    scale.update(step == 'x');
    after.push_back(scale.value());
  }
  return after;
}

TEST(LossScale, GrowsAfterGoodStepsAndFallsAfterOverflowsInARow) {
  LossScale scale(moving(4, 3, 2));
  const std::vector<double> expected{4, 4, 8, 8, 4, 4, 4, 4, 4, 4, 8, 8, 8, 16};
  EXPECT_EQ(scale_values(scale, "...xxx.x......"), expected);
  EXPECT_EQ(scale.overflows(), 4);
  LossScale published({.dynamic = true});
  EXPECT_EQ(scale_values(published, std::string(1999, '.')).back(), 1);
  EXPECT_EQ(scale_values(published, ".xx").back(), 1);
  EXPECT_EQ(scale_values(published, std::string(4000, '.')).back(), 4);
}

TEST(LossScale, StaysBetween1And1e20) {
  LossScale low(moving(2, 1, 1)), high(moving(4e19, 1, 1));
  EXPECT_EQ(scale_values(low, "xx."), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(scale_values(high, "..."), (std::vector<double>{8e19, 8e19, 8e19}));
}

TEST(LossScale, EndsTheRunWhenNothingCanEndTheOverflows) {
  LossScale fixed({.loss_scale = 1024}), fallen(moving(1024, 1, 2));
  EXPECT_EQ(scale_values(fixed, "xxxxxxxxx.xxxxxxxxx").back(), 1024);
  EXPECT_EQ(thrown<std::runtime_error>([&] { fixed.update(true); })
                .find("[loss_scale] the gradient of the last 10 steps is not finite, at "
                      "loss scale 1024, which is fixed; "),
            0);
  EXPECT_EQ(scale_values(fallen, std::string(20, 'x')).back(), 1);  // ten falls
  EXPECT_NE(thrown<std::runtime_error>([&] { fallen.update(true); }).find("the smallest possible"),
            std::string::npos);
}

TEST(LossScale, GoesOnFromWhatWasSaved) {
  const std::string steps = "..x.xx...x....xx";
  for (std::size_t cut = 0; cut < steps.size(); ++cut) {
    LossScale whole(moving(64, 3, 2)), first(moving(64, 3, 2)), second(moving(64, 3, 2));
    scale_values(whole, steps);
    scale_values(first, steps.substr(0, cut));
    second.restore(first.state());
    scale_values(second, steps.substr(cut));
    EXPECT_EQ(second.state(), whole.state()) << cut;
  }
  LossScale fixed({.loss_scale = 8}), dynamic(moving(64, 3, 2));
  scale_values(dynamic, "x");
  fixed.restore(dynamic.state());  // another run's: its counts alone
  EXPECT_EQ(fixed.value(), 8);
  EXPECT_EQ(fixed.overflows(), 1);
}

TEST(LossScale, DividesAndSeesWhatIsNotFinite) {
  const LossScale scale({.loss_scale = 8});
  const auto given = torch::tensor({8.0F, -1.0F, 0.0F, 3e38F});
  auto gradient = given.clone();
  EXPECT_EQ(scale.unscale(gradient).item<float>(), 0);
  EXPECT_TRUE(torch::equal(gradient, given / 8));
  for (const double bad : std::vector<double>{INFINITY, -INFINITY, NAN}) {
    auto other = torch::ones({1000});
    other[997] = bad;
    EXPECT_NE(scale.unscale(other).item<float>(), 0) << bad;
    EXPECT_FALSE(LossScale().unscale(other).defined());  // none: not looked at
  }
}

TEST(LossScale, RefusesWhatIsOutOfRangeOrContradicts) {
  const auto refusal = [](const LossScaleOptions& options) {
    return thrown<std::invalid_argument>([&] { LossScale{options}; });
  };
  EXPECT_NE(refusal({.loss_scale = 0}).find("loss_scale needs a number in (0, 1e+20], received 0"),
            std::string::npos);
  EXPECT_NE(refusal({.loss_scale = 8, .dynamic = true}).find("received both"), std::string::npos);
  EXPECT_NE(refusal({.init_loss_scaling = 0.5}).find("init_loss_scaling"), std::string::npos);
  EXPECT_NE(refusal({.incr_every_n_steps = 0}).find("incr_every_n_steps"), std::string::npos);
  EXPECT_NE(refusal({.decr_every_n_nan_or_inf = 0}).find("decr_every"), std::string::npos);
  EXPECT_NE(refusal({.incr_ratio = 1}).find("incr_ratio"), std::string::npos);
  EXPECT_NE(refusal({.decr_ratio = 1}).find("decr_ratio"), std::string::npos);
}

/// Loss and unscaled gradient of a batch, in two passes.
std::pair<double, torch::Tensor> step(Setup& setup, const LossScaleOptions& options) {
  setup.model.loss_scale = LossScale(options);
  setup.model.gradient_accumulation = 2;
  auto batch = first_batch(setup);
  const auto result =
      loss_and_gradient(setup, to_minibatch(setup.model, batch), batch.global_count, {.epoch = 1});
  if (setup.model.loss_scale.active()) {
    EXPECT_EQ(setup.model.loss_scale.unscale(setup.model.flat.gradient).item<float>(), 0);
  }
  return {result.loss_sum, setup.model.flat.gradient.clone()};
}

TEST(LossScale, APowerOfTwoChangesNoBit) {
  for (const auto precision : {models::Precision::float32, models::Precision::bfloat16}) {
    auto setup = toy_setup(precision);
    const auto [loss, gradient] = step(setup, {});
    for (const double scale : {1024.0, 1.0 / 64}) {
      const auto [scaled_loss, scaled] = step(setup, {.loss_scale = scale});
      EXPECT_EQ(scaled_loss, loss);
      EXPECT_TRUE(torch::equal(scaled, gradient)) << scale;
    }
    const auto [odd_loss, odd] = step(setup, {.loss_scale = 1000});
    EXPECT_EQ(odd_loss, loss);
    EXPECT_FALSE(torch::equal(odd, gradient));
    // bfloat16 rounds again, with 2^-9 relative; float32 with 2^-24
    const double tolerance = precision == models::Precision::float32 ? 1e-5 : 3e-2;
    EXPECT_LT((odd - gradient).norm().item<double>(), tolerance * gradient.norm().item<double>());
  }
}

TEST(LossScale, WhereNoneIsDroppedTheFirstOverflowEndsTheRun) {
  LossScale scale({.loss_scale = 1024, .drop_overflow = false});
  scale.update(false);
  const auto text = thrown<std::runtime_error>([&] { scale.update(true); });
  EXPECT_NE(text.find("not finite at loss scale 1024, and drop_overflow = false"),
            std::string::npos)
      << text;
  EXPECT_THROW(LossScale({.dynamic = true, .drop_overflow = false}), std::invalid_argument);
}

/// Rank 1's gradient alone overflows; the sum tells both.
TEST(LossScale, RanksAgreeOnAnOverflow) {
  std::vector<int> fits(2, -1);
  on_gloo_ranks(2, [&](distributed::TensorCommunicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    auto setup =
        toy_setup(models::Precision::float32, steep_network(rank == 1 ? std::ldexp(1, 100) : 1));
    setup.communicator = {&communicator, [](auto*) {}};
    setup.model.loss_scale = LossScale({.loss_scale = std::ldexp(1, 60)});
    GradientBuckets buckets(*setup.model.objective, setup.model.flat, communicator, {});
    auto batch = first_batch(setup);
    loss_and_gradient(setup, to_minibatch(setup.model, batch), batch.global_count, {}, &buckets);
    buckets.finish();
    fits[rank] =
        setup.model.loss_scale.unscale(setup.model.flat.gradient).item<float>() == 0 ? 1 : 0;
  });
  EXPECT_EQ(fits, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace dimred::engine
