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

/// Each gives the Preprocessing for images of `image_size` x `image_size` (0: its own). If mean and
/// deviation are empty, the training set's are meant; an empty mean alone is 0 for each channel.
namespace preprocessings {
#define DIMRED_PREPROCESSING(name) Preprocessing name(std::int64_t image_size);
#include "data/preprocessings.inc"
#undef DIMRED_PREPROCESSING
}  // namespace preprocessings

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
