#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/setup.h"

namespace dimred::serving {

struct Guess {
  std::int64_t label = 0;
  double probability = 0;  // softmax of the logits, in float64
};

struct Prediction {
  std::filesystem::path image;
  std::vector<Guess> guesses;  // the most probable first; of equal ones the smaller label
  std::string error;           // why the image cannot be used; then there are no guesses
};

/// Classifies image files with the setup's network in evaluation mode; each is decoded, cut and
/// normalised exactly as evaluation does it. Calls `take` for each image, in order; `top` guesses,
/// or as many as there are classes. A file that cannot be read or decoded is a Prediction with an
/// error. Memory: 64 prepared images.
void predict(engine::Setup& setup,
             const std::vector<std::filesystem::path>& images,
             std::int64_t top,
             const std::function<void(const Prediction&)>& take);

}  // namespace dimred::serving
