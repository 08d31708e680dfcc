#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/preprocess.h"

namespace dimred::data {

/// How images are prepared, by a published recipe's name.
enum class Recipe { none, imagenet, inception, vgg, cifarnet, lenet, fashion };

/// The recipe's Preprocessing for images of `image_size` x `image_size` (0: the recipe's own).
///   none       nothing but, with an image_size, a resize (aspect kept) to that shorter side and
///   its
///              middle; mean and deviation are empty: the training set's are meant
///   imagenet   224: random area 0.08-1, aspect 3/4-4/3, flip; evaluation 256 -> 224 of the middle;
///              mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225 (torchvision, MindSpore's
///              ResNet)
///   inception  299: random area 0.05-1, flip, brightness +-32, saturation 0.5-1.5; evaluation the
///              middle 0.875 of both sides; to [-1, 1] (TF-slim, without its bounding boxes and
///              hue)
///   vgg        224: shorter side 256-512, random square, flip; evaluation 256 -> 224; minus 123.68
///              116.78 103.94 (TF-slim)
///   cifarnet   as it is: pad 4, flip, brightness +-63, contrast 0.2-1.8, each image standardised
///   lenet      as it is: (p - 128) / 128
///   fashion    as it is: mean 0.2860, deviation 0.3530 (Fashion-MNIST's own)
/// Sources: FastNN images/preprocessing, MindSpore models/official/cv/ResNet.
Preprocessing recipe(Recipe name, std::int64_t image_size);

/// "none", "imagenet", ..., as an option names them.
const std::vector<std::pair<std::string, Recipe>>& recipe_names();

/// Sets brightness, contrast and saturation (nothing, if `strengths` is empty). Throws
/// std::invalid_argument unless there are three.
void apply(const std::vector<double>& strengths, JitterOptions& jitter);

}  // namespace dimred::data
