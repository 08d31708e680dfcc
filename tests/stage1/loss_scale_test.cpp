#include <gtest/gtest.h>

#include <cmath>

#include "run/run_folder.h"
#include "run/state.h"
#include "stage1/train.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::stage1 {
namespace {

struct Ended {
  engine::Setup setup;
  checkpoints::State state;
};

/// Stage 1 on gradients of 2^85 to 2^91, which overflow from a loss scale of 2^43 on: 2^60 falls to
/// 2^36 in three steps.
Ended run_scaled(const std::filesystem::path& folder, std::int64_t stop_at_step) {
  Ended ended{.setup = engine::toy_setup(models::Precision::float32,
                                         engine::steep_network(std::ldexp(1, 90)))};
  auto& setup = ended.setup;
  setup.model.loss_scale = engine::LossScale({.dynamic = true,
                                              .init_loss_scaling = std::ldexp(1, 60),
                                              .incr_every_n_steps = 2,
                                              .decr_every_n_nan_or_inf = 1,
                                              .decr_ratio = 1.0 / 256});
  Options options{.epochs = 3};
  options.schedule.kind = schedules::ScheduleKind::constant;
  options.schedule.total_epochs = 3;
  options.schedule.learning_rate = std::ldexp(1, -94);
  options.control.stop_at_step = stop_at_step;
  options.saves.snapshots_per_epoch = 0;
  Console console(/*quiet=*/true);
  const std::string toml = "seed = 1\n";
  const run::RunFolder run_folder(folder, {.toml = toml, .persistent = toml}, *setup.communicator);
  train(setup, run_folder, options, console);
  ended.state = run::read_run_state(folder);
  return ended;
}

TEST(TrainWithLossScale, LeavesOverflowingStepsOutAndCountsThem) {
  const TemporaryFolder folder;
  const auto fresh = engine::toy_setup(models::Precision::float32, engine::steep_network(1));
  const auto ended = run_scaled(folder / "run", 3);
  EXPECT_TRUE(torch::equal(ended.setup.model.flat.weights, fresh.model.flat.weights));
  for (const float value : ended.state.vectors.at("momentum")) EXPECT_EQ(value, 0);
  const auto& scalars = ended.state.scalars;
  EXPECT_EQ(scalars.at("step"), 3);  // the schedule goes on
  EXPECT_EQ(scalars.at("loss_scale").at("overflows"), 3);
  EXPECT_EQ(scalars.at("loss_scale").at("value"), std::ldexp(1, 36));
}

TEST(TrainWithLossScale, ResumesBitForBit) {
  const TemporaryFolder folder;
  const auto whole = run_scaled(folder / "whole", 0);
  EXPECT_GT(whole.state.scalars.at("loss_scale").at("value"), std::ldexp(1, 36));  // grew again
  EXPECT_FALSE(std::isnan(whole.state.vectors.at("weights").front()));
  for (const std::int64_t stop : {2, 5, 7, 0}) run_scaled(folder / "parts", stop);
  const auto parts = run::read_run_state(folder / "parts");
  EXPECT_EQ(parts.vectors, whole.state.vectors);
  EXPECT_EQ(parts.scalars.at("loss_scale"), whole.state.scalars.at("loss_scale"));
  const auto begun = run_scaled(folder / "begun", 3);
  EXPECT_NE(begun.state.vectors.at("weights"), whole.state.vectors.at("weights"));
}

}  // namespace
}  // namespace dimred::stage1
