#include "data/presets.h"

#include "support/errors.h"

namespace dimred::data {
namespace {

Preprocessing imagenet(std::int64_t size) {
  return {.mean = {0.485, 0.456, 0.406},
          .deviation = {0.229, 0.224, 0.225},
          .flip = true,
          .crop = {.cut = CropMode::random_area, .size = size}};
}

Preprocessing inception(std::int64_t size) {
  return {.mean = {0.5, 0.5, 0.5},
          .deviation = {0.5, 0.5, 0.5},
          .flip = true,
          .crop = {.cut = CropMode::random_area,
                   .size = size,
                   .area_low = 0.05,
                   .aspect_low = 0.75,
                   .aspect_high = 1.33,
                   .keeps_aspect = false},
          .jitter = {.shift = 32, .saturation = 0.5}};
}

Preprocessing vgg(std::int64_t size) {
  constexpr double level = 1.0 / 255;
  // The published sides, 256 to 512, are for 224.
  return {.mean = {123.68 * level, 116.78 * level, 103.94 * level},
          .deviation = {level, level, level},
          .flip = true,
          .crop = {.cut = CropMode::random_side,
                   .size = size,
                   .side_low = size * 256 / 224,
                   .side_high = size * 512 / 224}};
}

const std::vector<std::pair<std::string, Recipe>> recipes{{"none", Recipe::none},
                                                          {"imagenet", Recipe::imagenet},
                                                          {"inception", Recipe::inception},
                                                          {"vgg", Recipe::vgg},
                                                          {"cifarnet", Recipe::cifarnet},
                                                          {"lenet", Recipe::lenet},
                                                          {"fashion", Recipe::fashion}};

}  // namespace

const std::vector<std::pair<std::string, Recipe>>& recipe_names() { return recipes; }

void apply(const std::vector<double>& strengths, JitterOptions& jitter) {
  if (strengths.empty()) return;
  require(strengths.size() == 3,
          "[data::JitterOptions] colour_jitter needs brightness, contrast, saturation, received {} "
          "numbers",
          strengths.size());
  jitter.brightness = strengths[0];
  jitter.contrast = strengths[1];
  jitter.saturation = strengths[2];
}

Preprocessing recipe(Recipe name, std::int64_t image_size) {
  Preprocessing result;
  const auto size_or = [&](std::int64_t own) { return image_size > 0 ? image_size : own; };
  switch (name) {
    case Recipe::imagenet:
      return imagenet(size_or(224));
    case Recipe::inception:
      return inception(size_or(299));
    case Recipe::vgg:
      return vgg(size_or(224));
    case Recipe::cifarnet:
      result = {.mean = {0, 0, 0},
                .deviation = {1, 1, 1},
                .pad = 4,
                .flip = true,
                .jitter = {.shift = 63, .contrast = 0.8},
                .standardise = true};
      break;
    case Recipe::lenet:
      result = {.mean = {128.0 / 255}, .deviation = {128.0 / 255}};
      break;
    case Recipe::fashion:
      result = {.mean = {0.2860}, .deviation = {0.3530}};
      break;
    case Recipe::none:
      break;
  }
  if (image_size > 0) result.crop = {.cut = CropMode::centre, .size = image_size, .centre_part = 1};
  return result;
}

}  // namespace dimred::data
