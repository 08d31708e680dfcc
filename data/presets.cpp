#include "data/presets.h"

#include "support/errors.h"

namespace dimred::data {
namespace {

void resize_to(Preprocessing& result, std::int64_t image_size) {
  if (image_size == 0) return;
  result.crop = {.cut = Cut::centre, .size = image_size, .centre_part = 1};
}

Preprocessing imagenet(std::int64_t size) {
  return {.mean = {.485, .456, .406},
          .deviation = {.229, .224, .225},
          .flip = true,
          .crop = {.cut = Cut::random_area, .size = size}};
}

Preprocessing inception(std::int64_t size) {
  return {.mean = {.5, .5, .5},
          .deviation = {.5, .5, .5},
          .flip = true,
          .crop = {.cut = Cut::random_area,
                   .size = size,
                   .area_low = .05,
                   .aspect_low = .75,
                   .aspect_high = 1.33,
                   .keeps_aspect = false},
          .jitter = {.shift = 32, .saturation = .5}};
}

Preprocessing vgg(std::int64_t size) {
  constexpr double level = 1.0 / 255;
  // The published sides, 256 to 512, are for 224.
  return {.mean = {123.68 * level, 116.78 * level, 103.94 * level},
          .deviation = {level, level, level},
          .flip = true,
          .crop = {.cut = Cut::random_side,
                   .size = size,
                   .side_low = size * 256 / 224,
                   .side_high = size * 512 / 224}};
}

}  // namespace

const std::vector<std::pair<std::string, Recipe>>& recipe_names() {
  static const std::vector<std::pair<std::string, Recipe>> names{{"none", Recipe::none},
                                                                 {"imagenet", Recipe::imagenet},
                                                                 {"inception", Recipe::inception},
                                                                 {"vgg", Recipe::vgg},
                                                                 {"cifarnet", Recipe::cifarnet},
                                                                 {"lenet", Recipe::lenet},
                                                                 {"fashion", Recipe::fashion}};
  return names;
}

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
  switch (name) {
    case Recipe::imagenet:
      return imagenet(image_size > 0 ? image_size : 224);
    case Recipe::inception:
      return inception(image_size > 0 ? image_size : 299);
    case Recipe::vgg:
      return vgg(image_size > 0 ? image_size : 224);
    case Recipe::cifarnet:
      result = {.mean = {0, 0, 0},
                .deviation = {1, 1, 1},
                .pad = 4,
                .flip = true,
                .jitter = {.shift = 63, .contrast = .8},
                .standardise = true};
      break;
    case Recipe::lenet:
      result = {.mean = {128.0 / 255}, .deviation = {128.0 / 255}};
      break;
    case Recipe::fashion:
      result = {.mean = {.2860}, .deviation = {.3530}};
      break;
    case Recipe::none:
      break;
  }
  resize_to(result, image_size);
  return result;
}

}  // namespace dimred::data
