#pragma once

#include <cstdint>

#include "data/decode.h"
#include "support/random.h"

namespace dimred::data {

/// How an image of any size becomes size x size pixels.
enum class CropMode {
  none,         // it has the size already
  random_area,  // a random part of it, resized: torchvision's RandomResizedCrop
  random_side,  // resized to a random shorter side, then a random square of it: VGG's
  centre,       // the middle, for evaluation
};

struct CropOptions {
  CropMode cut = CropMode::none;
  std::int64_t size = 0;                  // side of the result, >= 1 unless cut is none
  double area_low = 0.08, area_high = 1;  // random_area: part of the image's area, in (0, 1]
  double aspect_low = 0.75, aspect_high = 4.0 / 3;  // random_area: width / height, > 0
  std::int64_t side_low = 256, side_high = 512;     // random_side: pixels, >= size
  double centre_part = 0.875;  // centre: size / shorter side, or part of both sides; in (0, 1]
  bool keeps_aspect = true;    // centre: false resizes the middle part of both sides to the square
};

/// Throws std::invalid_argument("[preprocessing_name] rule, received ...").
void validate(const CropOptions& crop);

/// The region of the image is resized to `resized`; its `window` (size x size) is the result.
struct CropPlan {
  Region region;
  Size resized;
  Region window;
  bool operator==(const CropPlan&) const = default;
};

/// Draws a cutting of an image of `image` pixels; centre draws nothing.
/// random_area: ten tries of area = U(area_low, area_high) x image, aspect = exp U(log aspect_low,
/// log aspect_high), width = round sqrt(area aspect), height = round sqrt(area / aspect), at a
/// uniform place where it fits; else the largest centred part of an allowed aspect.
/// random_side: shorter side U{side_low..side_high}, the other one in proportion rounded down, a
/// uniform place. centre: shorter side = round(size / centre_part), the other one in proportion
/// rounded down, the middle (offset rounded as torchvision's CenterCrop).
/// Sources: torchvision transforms.RandomResizedCrop, Resize, CenterCrop; TF-slim
/// vgg_preprocessing.
CropPlan cut(const CropOptions& crop, Size image, RandomStream& stream);

}  // namespace dimred::data
