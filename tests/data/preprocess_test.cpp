#include "data/preprocess.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "data/jitter.h"
#include "data/presets.h"
#include "support/random.h"
#include "tests/data/constructed_dataset.h"

namespace dimred::data {
namespace {

Preprocessing three_channels(std::int64_t pad, bool flip) {
  return {
      .mean = {0.1, 0.5, 0.9}, .deviation = {0.25, 0.3, 2}, .pad = pad, .flip = flip, .seed = 77};
}

std::vector<float> run_preprocessing(const Sample& sample,
                                     const Preprocessing& options,
                                     std::int64_t epoch,
                                     std::int64_t index) {
  std::vector<float> out(static_cast<std::size_t>(sample.shape.size()), -99.0F);
  PrepareScratch scratch;
  Preparer(options, sample.shape).prepare(sample, epoch, index, scratch, out);
  return out;
}

// Pads the whole image, cuts the window out, mirrors it, and normalises: every step as described.
std::vector<float> naive(const Sample& sample,
                         const Preprocessing& options,
                         std::int64_t epoch,
                         std::int64_t index) {
  const auto [channels, height, width] = sample.shape;
  const auto pad = options.pad, wide = width + 2 * pad;
  RandomStream stream(options.seed,
                      RandomPurpose::augmentation,
                      static_cast<std::uint64_t>(epoch),
                      static_cast<std::uint64_t>(index));
  const auto top = stream.below(static_cast<std::uint32_t>(2 * pad + 1));
  const auto left = stream.below(static_cast<std::uint32_t>(2 * pad + 1));
  const bool mirrored = stream.below(2) == 1 && options.flip;
  std::vector<float> out;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::vector<int> padded(static_cast<std::size_t>((height + 2 * pad) * wide), 0);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        padded[static_cast<std::size_t>((y + pad) * wide + x + pad)] =
            sample.bytes[static_cast<std::size_t>((c * height + y) * width + x)];
      }
    }
    const auto channel = static_cast<std::size_t>(c);
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const auto column = mirrored ? width - 1 - x : x;
        const int pixel = padded[static_cast<std::size_t>((y + top) * wide + column + left)];
        out.push_back(static_cast<float>((pixel / 255.0 - options.mean[channel]) /
                                         options.deviation[channel]));
      }
    }
  }
  return out;
}

TEST(Preprocess, PadCropFlipEqualsTheNaiveImplementation) {
  const ConstructedDataset dataset(20, {3, 5, 4});  // has every value of a byte
  std::vector<std::uint8_t> scratch;
  for (const auto& options : {three_channels(0, false),
                              three_channels(0, true),
                              three_channels(2, false),
                              three_channels(3, true)}) {
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
      for (std::int64_t index = 0; index < dataset.size(); ++index) {
        const auto sample = dataset.read(index, scratch);
        ASSERT_EQ(run_preprocessing(sample, options, epoch, index),
                  naive(sample, options, epoch, index))
            << "pad " << options.pad << ", flip " << options.flip << ", epoch " << epoch
            << ", sample " << index;
      }
    }
  }
}

TEST(Preprocess, WithoutAugmentationOnlyNormalises) {
  const ConstructedDataset dataset(1, {3, 9, 9});
  std::vector<std::uint8_t> scratch;
  const auto sample = dataset.read(0, scratch);
  const auto evaluation = without_augmentation(three_channels(4, true));
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    ASSERT_EQ(run_preprocessing(sample, evaluation, epoch, 0),
              run_preprocessing(sample, three_channels(0, false), 0, 0));
  }
}

/// Keras's rescale = 1/255 with target_size: the whole of both sides, p / 255 and no more.
TEST(Preprocess, RescaleResizesTheWholeImageAndDividesBy255) {
  EXPECT_EQ(recipe(Recipe::rescale, 0).crop.cut, CropMode::none);
  auto options = recipe(Recipe::rescale, 6);
  RandomStream stream(1, RandomPurpose::augmentation, 0, 0);
  const CropPlan whole{{0, 0, 9, 14}, {6, 6}, {0, 0, 6, 6}};
  EXPECT_EQ(cut(options.crop, {9, 14}, stream), whole);
  EXPECT_EQ(without_augmentation(options).crop.cut, options.crop.cut);
  EXPECT_TRUE(options.mean.empty());  // 0 for each channel of the data
  EXPECT_EQ(options.deviation, std::vector{1.0});
  const auto table = pixel_table({.mean = {0.0}, .deviation = {1.0}});
  for (int pixel = 0; pixel < 256; ++pixel)
    EXPECT_EQ(table[0][pixel], static_cast<float>(pixel / 255.0));
}

/// TF-Slim's lenet_preprocessing.
TEST(Preprocess, LenetCentresPixelsAt128) {
  const auto options = recipe(Recipe::lenet, 28);
  const auto table = pixel_table({.mean = options.mean, .deviation = options.deviation});
  for (int pixel = 0; pixel < 256; ++pixel)
    EXPECT_NEAR(table[0][pixel], (pixel - 128) / 128.0, 1e-7);
}

/// A change that is off draws no number.
TEST(Jitter, DrawsANumberForEachChangeThatIsOn) {
  constexpr double strength = 0.5;
  std::vector<std::uint8_t> expected(3 * 50);
  std::iota(expected.begin(), expected.end(), 40);
  auto received = expected;
  RandomStream own(4, RandomPurpose::augmentation), stream(4, RandomPurpose::augmentation);
  const float brightness = 1 - strength + 2 * strength * own.uniform();
  brighten(brightness, expected);
  const float saturation = 1 - strength + 2 * strength * own.uniform();
  saturate(saturation, expected, 3);
  jitter({.brightness = strength, .saturation = strength}, received, 3, stream);
  EXPECT_EQ(received, expected);
  EXPECT_EQ(stream.next(), own.next());
}

TEST(Preprocessing, RefusesBadValues) {
  const ImageShape shape{3, 5, 4};
  EXPECT_NO_THROW(validate(three_channels(3, true), shape));
  EXPECT_THROW(validate(three_channels(4, true), shape), std::invalid_argument);  // pad < width
  EXPECT_THROW(validate(three_channels(-1, true), shape), std::invalid_argument);
  EXPECT_THROW(validate(three_channels(0, true), {1, 5, 4}), std::invalid_argument);
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double deviation : {0.0, -1.0, infinite, std::nan("")}) {
    auto options = three_channels(0, false);
    options.deviation[1] = deviation;
    EXPECT_THROW(validate(options, shape), std::invalid_argument) << deviation;
  }
  auto options = three_channels(0, false);
  options.mean[2] = infinite;
  EXPECT_THROW(validate(options, shape), std::invalid_argument);
  options.mean.pop_back();
  EXPECT_THROW(validate(options, shape), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
