#include "data/presets.h"

#include <algorithm>

#include "support/errors.h"

namespace dimred::data {
namespace {

std::int64_t size_or(std::int64_t size, std::int64_t own) { return size > 0 ? size : own; }

struct NamedPreprocessing {
  const char* name;
  Preprocessing (*make)(std::int64_t image_size);
};

constexpr std::array named_preprocessings{
#define DIMRED_PREPROCESSING(of) NamedPreprocessing{#of, preprocessings::of},
#include "data/preprocessings.inc"
#undef DIMRED_PREPROCESSING
};

}  // namespace

// Sources: FastNN images/preprocessing, MindSpore models/official/cv/ResNet.
namespace preprocessings {

/// Nothing but, with an image_size, a resize (aspect kept) to that shorter side and its middle.
Preprocessing none(std::int64_t image_size) { return {.crop = whole_image(image_size)}; }

/// 224: random area 0.08-1, aspect 3/4-4/3, flip; evaluation 256 -> 224 of the middle
/// (torchvision, MindSpore's ResNet).
Preprocessing imagenet(std::int64_t image_size) {
  return {.mean = {0.485, 0.456, 0.406},
          .deviation = {0.229, 0.224, 0.225},
          .flip = true,
          .crop = {.cut = CropMode::random_area, .size = size_or(image_size, 224)}};
}

/// 299: random area 0.05-1, flip, brightness +-32, saturation 0.5-1.5; evaluation the middle 0.875
/// of both sides; to [-1, 1] (TF-slim, without its bounding boxes and hue).
Preprocessing inception(std::int64_t image_size) {
  return {.mean = {0.5, 0.5, 0.5},
          .deviation = {0.5, 0.5, 0.5},
          .flip = true,
          .crop = {.cut = CropMode::random_area,
                   .size = size_or(image_size, 299),
                   .area_low = 0.05,
                   .aspect_low = 0.75,
                   .aspect_high = 1.33,
                   .keeps_aspect = false},
          .jitter = {.shift = 32, .saturation = 0.5}};
}

/// 224: shorter side 256-512, random square, flip; evaluation 256 -> 224; the mean subtracted,
/// 0 to 255 (TF-slim).
Preprocessing vgg(std::int64_t image_size) {
  constexpr double level = 1.0 / 255;
  const auto size = size_or(image_size, 224);
  // The published sides, 256 to 512, are for 224.
  return {.mean = {123.68 * level, 116.78 * level, 103.94 * level},
          .deviation = {level, level, level},
          .flip = true,
          .crop = {.cut = CropMode::random_side,
                   .size = size,
                   .side_low = size * 256 / 224,
                   .side_high = size * 512 / 224}};
}

/// As it is: pad 4, flip, brightness +-63, contrast 0.2-1.8, each image standardised.
Preprocessing cifarnet(std::int64_t image_size) {
  return {.mean = {0, 0, 0},
          .deviation = {1, 1, 1},
          .pad = 4,
          .flip = true,
          .crop = whole_image(image_size),
          .jitter = {.shift = 63, .contrast = 0.8},
          .standardise = true};
}

/// As it is: (p - 128) / 128.
Preprocessing lenet(std::int64_t image_size) {
  return {.mean = {128.0 / 255}, .deviation = {128.0 / 255}, .crop = whole_image(image_size)};
}

/// As it is, with Fashion-MNIST's own mean and deviation.
Preprocessing fashion(std::int64_t image_size) {
  return {.mean = {0.2860}, .deviation = {0.3530}, .crop = whole_image(image_size)};
}

/// The whole image to the size (aspect not kept; as it is without an image_size), p / 255 and no
/// more (Keras's rescale = 1/255 and target_size).
Preprocessing rescale(std::int64_t image_size) {
  auto crop = whole_image(image_size);
  crop.keeps_aspect = false;
  return {.deviation = {1}, .crop = crop};
}

}  // namespace preprocessings

CropOptions whole_image(std::int64_t image_size) {
  if (image_size == 0) return {};
  return {.cut = CropMode::centre, .size = image_size, .centre_part = 1};
}

Preprocessing recipe(Recipe name, std::int64_t image_size) {
  const auto& entry = named_preprocessings.at(static_cast<std::size_t>(name));
  auto result = entry.make(image_size);
  if (result.change) result.change_name = entry.name;
  return result;
}

PixelChange pixel_change(const std::string& name) {
  const auto* const found = std::ranges::find_if(
      named_preprocessings, [&](const NamedPreprocessing& entry) { return name == entry.name; });
  const auto change = found != named_preprocessings.end() ? found->make(0).change : nullptr;
  require_environment(change != nullptr,
                      "[preprocessing_name] this program does not have the preprocessing {}",
                      name);
  return change;
}

const std::vector<std::pair<std::string, Recipe>>& recipe_names() {
  static const auto names = [] {
    std::vector<std::pair<std::string, Recipe>> all;
    for (std::size_t i = 0; i < named_preprocessings.size(); ++i)
      all.emplace_back(named_preprocessings[i].name, static_cast<Recipe>(i));
    return all;
  }();
  return names;
}

void apply(const std::vector<double>& strengths, JitterOptions& jitter) {
  if (strengths.empty()) return;
  require(strengths.size() == 3,
          "[colour_jitter] colour_jitter needs three numbers (brightness, contrast, saturation), "
          "received {}",
          strengths.size());
  jitter.brightness = strengths[0];
  jitter.contrast = strengths[1];
  jitter.saturation = strengths[2];
}

}  // namespace dimred::data
