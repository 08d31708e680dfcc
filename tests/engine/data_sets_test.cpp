#include "engine/data_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "data/encode.h"
#include "data/samplers.h"
#include "engine/evaluate.h"
#include "support/descriptor.h"
#include "support/formatted.h"
#include "tests/tools/streamed_toy.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
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

std::string refusal_to_train(const Setup& setup) {
  return thrown<std::invalid_argument>([&] { require_cache_for_training(setup.data); });
}

TEST(StreamedTraining, NeedsTheFilesOfTwoWindowsAndOfTheBatchesAhead) {
  // 2 * 6 + (1 + 3) * 4 = 28 samples one behind another lie in at most four files of 12.
  EXPECT_THAT(refusal_to_train(streamed_setup(399, 6)),
              HasSubstr("enlarge stream_cache to at least 400 B for shuffle_buffer_size = 6, "
                        "batches of 4 and prefetch = 1"));
  EXPECT_EQ(refusal_to_train(streamed_setup(400, 6)), "no exception");
  auto larger = streamed_setup(400, 6);
  larger.data.global_batch_size = 16;
  EXPECT_NE(refusal_to_train(larger), "no exception");
}

TEST(StreamedTraining, AWindowBeyondAllSamplesIsOneOfAll) {
  for (const auto window : {std::int64_t{96}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_NE(refusal_to_train(streamed_setup(799, window)), "no exception");
    EXPECT_EQ(refusal_to_train(streamed_setup(800, window)), "no exception");
  }
}

TEST(StreamedTraining, NeedsWindowsAndNoSamplesHeldOut) {
  EXPECT_THAT(refusal_to_train(streamed_setup(700, 0)), HasSubstr("shuffle_buffer_size > 0"));
  auto held_out = streamed_setup(700, 6);
  held_out.data.validation = data::subset(held_out.data.train, {0, 50});
  EXPECT_THAT(refusal_to_train(held_out), HasSubstr("validation_fraction = 0"));
  EXPECT_EQ(thrown<std::invalid_argument>([&] { require_cache_for_pass(held_out.data); }),
            "no exception");
}

TEST(StreamedTraining, InAnyOrderWhereAllFilesFit) {
  auto setup = streamed_setup(800, 0);
  EXPECT_EQ(refusal_to_train(setup), "no exception");
  // Files shared over ranks lie in no order of files.
  setup.data.train =
      data::subset(setup.data.train, data::even_shares(setup.data.train->shard_sizes(), 2, 1));
  EXPECT_EQ(refusal_to_train(setup), "no exception");
  EXPECT_EQ(refusal_to_train(toy_setup(models::Precision::float32)), "no exception");
}

TEST(StreamedTraining, WhatReadsAllFilesOftenNeedsRoomForAll) {
  EXPECT_THAT(thrown<std::invalid_argument>(
                  [] { require_cache_for_all(streamed_setup(799, 6).data, "a surface"); }),
              HasSubstr("enlarge stream_cache to hold all data: a surface"));
  EXPECT_EQ(thrown<std::invalid_argument>(
                [] { require_cache_for_all(streamed_setup(800, 6).data, "a surface"); }),
            "no exception");
}

TEST(StreamedTraining, EvaluationNeedsNoRoomAndRecalibrationThatOfAPass) {
  auto setup = streamed_setup(100, 6);
  EXPECT_EQ(evaluate(setup, *setup.data.test).samples, 96);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { recalibrate_batchnorm(setup); }),
              HasSubstr("enlarge stream_cache to at least 400 B"));
  auto wider = streamed_setup(400, 6);
  EXPECT_EQ(thrown<std::invalid_argument>([&] { recalibrate_batchnorm(wider); }), "no exception");
}

/// Counts how often files of a folder are opened.
class OpenedFiles {
 public:
  explicit OpenedFiles(const std::filesystem::path& folder)
      : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // With the closings between them, two openings of a file are not merged into one event.
    EXPECT_GE(::inotify_add_watch(events_, folder.c_str(), IN_OPEN | IN_CLOSE), 0);
  }
  /// Since the last call.
  int take() {
    int count = 0;
    alignas(inotify_event) std::array<char, 4096> read;
    for (ssize_t size = 0; (size = ::read(events_, read.data(), read.size())) > 0;) {
      for (ssize_t at = 0; at < size;) {
        const auto& event = *reinterpret_cast<const inotify_event*>(read.data() + at);
        if ((event.mask & IN_ISDIR) == 0 && (event.mask & IN_OPEN) != 0) ++count;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event.len);
      }
    }
    return count;
  }

 private:
  Descriptor events_;
};

/// To find out that their sizes differ, the headers are read: not more.
TEST(LoadData, OpensImagesOfDifferingSizesOnce) {
  constexpr int images = 6;
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "set/a");
  for (int i = 0; i < images; ++i) {
    const data::ImageShape shape{3, 40 + i, 44};
    put_file(
        folder / "set/a" / formatted("{}.png", i),
        data::to_png(std::vector<std::uint8_t>(static_cast<std::size_t>(shape.size())), shape));
  }
  const auto ranks = distributed::single_rank();
  OpenedFiles files(folder / "set/a");
  const auto load = [&](std::optional<data::Recipe> recipe) {
    DataOptions options{.dataset = {.path = folder / "set"},
                        .preprocessing_name = recipe,
                        .image_size = recipe ? 32 : 0,
                        .photograph_recipe = data::Recipe::vgg,
                        .photograph_size = 32};
    const auto loaded = load_data(options, {.global_batch_size = 2}, *ranks, 1);
    EXPECT_EQ(options.preprocessing_name, data::Recipe::vgg);
    EXPECT_EQ(loaded.image_shape, (data::ImageShape{3, 32, 32}));
    return files.take();
  };
  const int asked = load(data::Recipe::vgg);
  EXPECT_GT(asked, 0);
  EXPECT_EQ(load(std::nullopt), asked + images);
}

/// One image of 200: not among those whose headers are looked at first.
TEST(LoadData, FindsTheOneImageOfAnotherSize) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "set/a");
  for (int i = 0; i < 200; ++i) {
    const data::ImageShape shape{3, 8, i == 101 ? 9 : 8};
    put_file(
        folder / "set/a" / formatted("{}.png", 100 + i),
        data::to_png(std::vector<std::uint8_t>(static_cast<std::size_t>(shape.size())), shape));
  }
  const auto ranks = distributed::single_rank();
  DataOptions options{.dataset = {.path = folder / "set"},
                      .photograph_recipe = data::Recipe::vgg,
                      .photograph_size = 4};
  const auto loaded = load_data(options, {.global_batch_size = 2}, *ranks, 1);
  EXPECT_EQ(options.preprocessing_name, data::Recipe::vgg);
  EXPECT_EQ(loaded.image_shape, (data::ImageShape{3, 4, 4}));
}

TEST(LoadData, TakesTheMeanAndDeviationOfTheWeightsTraining) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "set/a");
  for (int i = 0; i < 2; ++i)
    put_file(folder / "set/a" / formatted("{}.png", i),
             data::to_png(std::vector<std::uint8_t>(48, static_cast<std::uint8_t>(51 + 102 * i)),
                          {.channels = 3, .height = 4, .width = 4}));
  const auto ranks = distributed::single_rank();
  const auto normalisation = [&](const std::vector<double>& mean) {
    DataOptions options{.dataset = {.path = folder / "set"},
                        .trained_mean = mean,
                        .trained_deviation = std::vector<double>(mean.size(), 0.25)};
    const auto loaded = load_data(options, {.global_batch_size = 2}, *ranks, 1);
    return std::pair{loaded.preprocessing.mean[0], loaded.preprocessing.deviation[0]};
  };
  const auto [mean, deviation] = normalisation({});
  EXPECT_NEAR(mean, 0.4, 1e-12);  // of pixels 51 and 153
  EXPECT_NEAR(deviation, 0.2, 1e-12);
  EXPECT_EQ(normalisation({0.7, 0.7, 0.7}), (std::pair{0.7, 0.25}));
  EXPECT_EQ(normalisation({0.7}).first, mean);  // of images with one channel
}

}  // namespace
}  // namespace dimred::engine
