#include "training/data_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "data/samplers.h"
#include "tests/tools/streamed_toy.h"
#include "tests/tools/toy_setup.h"
#include "training/evaluate.h"

namespace dimred::training {
namespace {

using testing::HasSubstr;

Setup streamed_setup(std::int64_t room, std::int64_t window) {
  auto setup = toy_setup(models::Precision::float32);  // with BatchNorm
  setup.data.train = std::make_shared<StreamedToy>(room);
  setup.data.test = setup.data.train;
  setup.data.shuffle_window = window;
  if (window > 0)
    setup.data.sampler = data::windowed_shuffle(setup.data.train->shard_sizes(), window);
  setup.data.global_batch_size = 4;
  setup.data.loading.prefetch = 1;
  return setup;
}

template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string refusal_to_train(const Setup& setup) {
  return refusal([&] { require_cache_for_training(setup.data); });
}

TEST(StreamedTraining, NeedsTheFilesOfTwoWindowsAndOfTheBatchesAhead) {
  // 2 * 6 + (1 + 3) * 4 = 28 samples one behind another lie in at most four files of 12.
  EXPECT_THAT(refusal_to_train(streamed_setup(399, 6)),
              HasSubstr("needs at least 400 B with shuffle_buffer_size = 6, batches of 4 and "
                        "prefetch = 1"));
  EXPECT_EQ(refusal_to_train(streamed_setup(400, 6)), "");
  auto larger = streamed_setup(400, 6);
  larger.data.global_batch_size = 16;
  EXPECT_NE(refusal_to_train(larger), "");
}

TEST(StreamedTraining, AWindowBeyondAllSamplesIsOneOfAll) {
  for (const auto window : {std::int64_t{96}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_NE(refusal_to_train(streamed_setup(799, window)), "");
    EXPECT_EQ(refusal_to_train(streamed_setup(800, window)), "");
  }
}

TEST(StreamedTraining, NeedsWindowsAndNoSamplesHeldOut) {
  EXPECT_THAT(refusal_to_train(streamed_setup(700, 0)), HasSubstr("shuffle_buffer_size > 0"));
  auto held_out = streamed_setup(700, 6);
  held_out.data.validation = data::subset(held_out.data.train, {0, 50});
  EXPECT_THAT(refusal_to_train(held_out), HasSubstr("validation_fraction = 0"));
  EXPECT_EQ(refusal([&] { require_cache_for_pass(held_out.data); }), "");
}

TEST(StreamedTraining, InAnyOrderWhereAllFilesFit) {
  auto setup = streamed_setup(800, 0);
  EXPECT_EQ(refusal_to_train(setup), "");
  // Files shared over ranks lie in no order of files.
  setup.data.train =
      data::subset(setup.data.train, data::even_shares(setup.data.train->shard_sizes(), 2, 1));
  EXPECT_EQ(refusal_to_train(setup), "");
  EXPECT_EQ(refusal_to_train(toy_setup(models::Precision::float32)), "");
}

TEST(StreamedTraining, WhatReadsAllFilesOftenNeedsRoomForAll) {
  EXPECT_THAT(refusal([] { require_cache_for_all(streamed_setup(799, 6).data, "a surface"); }),
              HasSubstr("room for all of it: a surface"));
  EXPECT_EQ(refusal([] { require_cache_for_all(streamed_setup(800, 6).data, "a surface"); }), "");
}

TEST(StreamedTraining, EvaluationNeedsNoRoomAndRecalibrationThatOfAPass) {
  auto setup = streamed_setup(100, 6);
  EXPECT_EQ(evaluate(setup, *setup.data.test).samples, 96);
  EXPECT_THAT(refusal([&] { recalibrate_batchnorm(setup); }), HasSubstr("needs at least 400 B"));
  auto wider = streamed_setup(400, 6);
  EXPECT_EQ(refusal([&] { recalibrate_batchnorm(wider); }), "");
}

}  // namespace
}  // namespace dimred::training
