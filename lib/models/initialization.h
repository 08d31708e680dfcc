#pragma once

#include <torch/nn/module.h>

#include <optional>

namespace dimred::models {

/// How fresh weights are drawn. network: as its authors or torch draw them. mindspore: as
/// MindSpore's ResNet recipe: convolutions from Xavier's uniform distribution, dense layers from
/// N(0, 0.01^2) cut off at two deviations, their biases 0.
/// Source: mindspore/models r1.6, official/cv/resnet/train.py.
enum class Initialization { network, mindspore };

/// Draws the weights of all layers below `network` from the current generator.
void initialise_as_mindspore(torch::nn::Module& network);

/// Constants of BatchNorm layers in the place of their network's own.
struct BatchNormConstants {
  std::optional<double> eps;       // > 0, is added to the variance
  std::optional<double> momentum;  // (0, 1], part of a batch in the running statistics
};

/// Throws std::invalid_argument where one is given and no layer below `network` takes it.
void set_constants(torch::nn::Module& network, const BatchNormConstants& constants);

}  // namespace dimred::models
