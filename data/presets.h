#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/preprocess.h"

namespace dimred::data {

/// A preprocessing's name. Adding one is a file that defines preprocessings::NAME(), and its line
/// in preprocessings.inc.
enum class Recipe {
#define DIMRED_PREPROCESSING(name) name,
#include "data/preprocessings.inc"
#undef DIMRED_PREPROCESSING
};

/// Each gives the Preprocessing for images of `image_size` x `image_size` (0: its own). Where mean
/// and deviation are empty, the training set's are meant; where the mean alone is, 0 for each of
/// the data's channels.
namespace preprocessings {
/// Nothing but, with an image_size, a resize (aspect kept) to that shorter side and its middle.
Preprocessing none(std::int64_t image_size);
/// 224: random area 0.08-1, aspect 3/4-4/3, flip; evaluation 256 -> 224 of the middle; mean 0.485
/// 0.456 0.406, deviation 0.229 0.224 0.225 (torchvision, MindSpore's ResNet).
Preprocessing imagenet(std::int64_t image_size);
/// 299: random area 0.05-1, flip, brightness +-32, saturation 0.5-1.5; evaluation the middle 0.875
/// of both sides; to [-1, 1] (TF-slim, without its bounding boxes and hue).
Preprocessing inception(std::int64_t image_size);
/// 224: shorter side 256-512, random square, flip; evaluation 256 -> 224; minus 123.68 116.78
/// 103.94 (TF-slim).
Preprocessing vgg(std::int64_t image_size);
/// As it is: pad 4, flip, brightness +-63, contrast 0.2-1.8, each image standardised.
Preprocessing cifarnet(std::int64_t image_size);
/// As it is: (p - 128) / 128.
Preprocessing lenet(std::int64_t image_size);
/// As it is: mean 0.2860, deviation 0.3530 (Fashion-MNIST's own).
Preprocessing fashion(std::int64_t image_size);
/// The whole image to the size (aspect not kept; as it is without an image_size), p / 255 and no
/// more (Keras's rescale = 1/255 and target_size).
Preprocessing rescale(std::int64_t image_size);
/// As none, and each channel's histogram equalised.
Preprocessing equalize(std::int64_t image_size);
}  // namespace preprocessings
// Sources: FastNN images/preprocessing, MindSpore models/official/cv/ResNet.

/// The crop of `none`.
CropOptions whole_image(std::int64_t image_size);

/// The one of that name; a change of pixels carries it.
Preprocessing recipe(Recipe name, std::int64_t image_size);

/// The change of pixels that carries this name. Throws std::runtime_error where this program has
/// none.
PixelChange pixel_change(const std::string& name);

/// "none", "imagenet", ..., as an option names them.
const std::vector<std::pair<std::string, Recipe>>& recipe_names();

/// Sets brightness, contrast and saturation (nothing, if `strengths` is empty). Throws
/// std::invalid_argument unless there are three.
void apply(const std::vector<double>& strengths, JitterOptions& jitter);

}  // namespace dimred::data
