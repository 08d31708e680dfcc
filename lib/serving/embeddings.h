#pragma once

#include <torch/types.h>

#include <vector>

#include "engine/setup.h"
#include "serving/image_source.h"

namespace dimred::serving {

/// While it lives, the setup's network gives the input of its last layer: that layer, linear, has
/// the identity for weights. A TorchScript module, whose layers nobody has named, stays as it is:
/// its output is the embedding; so it is of a network with a head behind it, and of its export.
/// Throws std::invalid_argument for a last layer that is not linear.
class EmbeddingScope {
 public:
  explicit EmbeddingScope(engine::Setup& setup);
  ~EmbeddingScope();
  EmbeddingScope(const EmbeddingScope&) = delete;
  EmbeddingScope& operator=(const EmbeddingScope&) = delete;

 private:
  struct Swapped {
    torch::Tensor parameter, own;
  };
  void swap(const torch::Tensor& parameter, const torch::Tensor& instead);
  std::vector<Swapped> swapped_;
};

struct Embeddings {
  std::int64_t size = 0;
  std::vector<double> plain;    // [images x size]
  std::vector<double> flipped;  // the same of the images flipped left to right; or empty
};

/// In evaluation mode. Throws std::runtime_error naming the first image that cannot be used, and
/// for embeddings that are not finite.
Embeddings embeddings_of(engine::Setup& setup,
                         const std::vector<ImageSource>& images,
                         bool with_flipped);

}  // namespace dimred::serving
